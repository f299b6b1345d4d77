//! `report.html`: one file that can be mailed: the answer, the pictures, the tables, and the report itself inside.
//!
//! Nothing is fetched when it is opened and no script runs. All text of others (names of devices, messages of programs)
//! is escaped. The data stand in the file as JSON, so that whoever gets only the page has the numbers too.

use crate::markdown;
use crate::report::Report;
use crate::stats::comparison::clause;
use crate::table::{self, arm_name, groups};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#111}\
    table{border-collapse:collapse;margin:1rem 0;font-size:14px}th,td{border:1px solid #ccc;padding:.25rem .6rem;\
    text-align:left}td.n{text-align:right;font-variant-numeric:tabular-nums}tr.bad td{background:#fbe9e3}\
    tr.good td{background:#e9f5f0}svg{max-width:100%;height:auto}";

/// The whole page, with `svg` in it where there is one.
pub fn render(report: &Report, svg: Option<&str>) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Barrier sweep</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head>\n<body>\n<h1>Barrier sweep</h1>\n"
    );
    let conclusion = markdown::conclusion(report).replace("**", "").replace('`', "");
    page.push_str(&format!("<p><b>{}</b></p>\n", escape(&conclusion)));
    let source = report.git.as_ref().map_or("unknown".into(), |g| g.commit.clone());
    page.push_str(&format!(
        "<p>{}, {} logical processors, {}; commit {}.</p>\n",
        escape(&report.host.cpu),
        report.host.cores,
        escape(&report.host.os),
        escape(&source)
    ));
    if let Some(svg) = svg {
        page.push_str(&format!("<figure>{svg}</figure>\n"));
    }
    for (title, arms) in groups(report) {
        page.push_str(&format!("<h2>{}</h2>\n<table><tr>", escape(&title)));
        for head in [
            "arm",
            "dispatches",
            "asked",
            "emitted",
            "driver flushes",
            "rate",
            "against stock",
            "verdict",
            "why",
        ] {
            page.push_str(&format!("<th>{head}</th>"));
        }
        page.push_str("</tr>\n");
        for arm in arms {
            let verdict = table::verdict(arm);
            let class = match verdict.as_str() {
                "verified" | "reference" => "good",
                "incorrect by design" | "REFUTED" | "FAILED" => "bad",
                _ => "",
            };
            let count = |n: Option<f64>| {
                n.map_or("-".into(), |n| {
                    format!("{n:.4}").trim_end_matches('0').trim_end_matches('.').to_string()
                })
            };
            let rate =
                arm.tok_s.map_or("-".into(), |r| format!("{:.1} [{:.1}, {:.1}]", r.median, r.lo, r.hi));
            let ratio = arm.vs_stock.map_or("-".into(), |r| {
                let said =
                    r.answer.map_or(String::new(), |a| format!(" ({})", clause(a, r.smallest_difference)));
                format!("{:.3} [{:.3}, {:.3}]{said}", r.ratio, r.lo, r.hi)
            });
            page.push_str(&format!("<tr class=\"{class}\"><td>{}</td>", escape(&arm_name(arm))));
            let numbers = [
                count(arm.dispatches_per_token),
                count(arm.barriers_asked_per_token),
                count(arm.barriers_emitted_per_token),
                count(arm.driver_flushes_per_token),
                rate,
                ratio,
            ];
            for number in numbers {
                page.push_str(&format!("<td class=\"n\">{}</td>", escape(&number)));
            }
            let why = arm.reason.as_deref().unwrap_or_default();
            page.push_str(&format!("<td>{}</td><td>{}</td></tr>\n", escape(&verdict), escape(why)));
        }
        page.push_str("</table>\n");
    }
    if !report.gates.is_empty() {
        page.push_str("<h2>Gates</h2>\n<table><tr><th>gate</th><th>policy</th><th>status</th><th>drops caught</th><th>why</th></tr>\n");
        for gate in table::gates_with_evidence(report) {
            page.push_str(&format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escape(&gate.gate),
                escape(&gate.policy),
                table::status(gate.status),
                escape(&table::score(gate)),
                escape(gate.reason.as_deref().unwrap_or_default())
            ));
        }
        page.push_str("</table>\n");
    }
    if !report.notes.is_empty() {
        page.push_str("<h2>Notes</h2>\n<ul>\n");
        for note in &report.notes {
            page.push_str(&format!("<li>{}</li>\n", escape(note)));
        }
        page.push_str("</ul>\n");
    }
    // No markup can begin in there: every < is written as JSON may write it.
    let data = report.to_json().replace('<', "\\u003c");
    page.push_str(&format!(
        "<script type=\"application/json\" id=\"report\">\n{data}</script>\n</body></html>\n"
    ));
    page
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}
