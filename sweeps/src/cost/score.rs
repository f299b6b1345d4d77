//! How good a prediction was: predicted ratios beside those of a sweep that was made afterwards.
//!
//! A prediction that was not made before, or of other programs, another model or another device, is not scored. And its
//! errors stand beside those of the laziest prediction, that no policy changes anything: what does not beat that has no
//! skill.

use super::predict::{OfPolicy, Prediction};
use crate::report::{Arm, ArmRole, Report};
use crate::scored::{PredictionScore, Scored};
use crate::stats::difference::Interval;
use crate::table::{arm_name, table};
use crate::verdict::Verdict;

/// Scores `prediction` against `report`.
///
/// # Errors
///
/// In words, when the two do not belong together.
pub fn score(prediction: &Prediction, report: &Report) -> Result<PredictionScore, String> {
    let Some(began) = report.began_unix_s else {
        return Err(
            "the report does not say when its run began, so nothing shows that the prediction came first"
                .into(),
        );
    };
    if prediction.made_unix_s > began {
        return Err(format!(
            "the prediction was made {} s after the run had begun, so it predicts nothing",
            prediction.made_unix_s - began
        ));
    }
    for role in ["engine", "layer"] {
        let (said, ran) = (prediction.blake3.get(role), report.blake3.get(role));
        if said != ran {
            return Err(format!(
                "the prediction is of another {role} than the report: rebuild nothing between the two"
            ));
        }
    }
    let mut notes = Vec::new();
    if !prediction.proves_speed {
        notes.push("The device is a CPU: whatever the score, it says nothing about any GPU.".into());
    }
    let mut policies = Vec::new();
    for model in &prediction.models {
        let same = |arm: &&Arm| {
            arm.model == model.model && arm.device.name == prediction.device.name && arm.knobs.is_empty()
        };
        if prediction.blake3.get(&model.model) != report.blake3.get(&model.model) {
            notes.push(format!("Model {}: the report is of another file of that name.", model.model));
            continue;
        }
        let arms = report.arms.iter().filter(same).filter(|a| a.role == ArmRole::Policy);
        for arm in arms {
            let policy = model.policies.iter().find(|p| Some(&p.policy) == arm.policy.as_ref());
            policies.extend(policy.and_then(|p| one(&model.model, p, arm)));
        }
    }
    if policies.is_empty() {
        return Err(format!(
            "the report has no timed policy of {} with a model of the prediction ({})",
            prediction.device.name,
            prediction.models.iter().map(|m| m.model.as_str()).collect::<Vec<_>>().join(", ")
        ));
    }
    Ok(PredictionScore { seconds_before: began - prediction.made_unix_s, policies, notes })
}

fn one(model: &str, policy: &OfPolicy, arm: &Arm) -> Option<Scored> {
    let measured = arm.vs_stock?;
    let n = arm.tok_s.map_or(0, |r| r.n);
    let measured = Interval { median: measured.ratio, lo: measured.lo, hi: measured.hi, n };
    let p = policy.ratio;
    Some(Scored {
        model: model.into(),
        policy: arm_name(arm),
        predicted: p,
        measured,
        error: p.median / measured.median - 1.0,
        error_of_no_change: 1.0 / measured.median - 1.0,
        intervals_meet: p.lo <= measured.hi && measured.lo <= p.hi,
        emitted: (policy.emitted_per_token, arm.barriers_emitted_per_token),
        correct: matches!(arm.verdict, Verdict::Verified | Verdict::NoEffect | Verdict::Unproven),
    })
}

impl PredictionScore {
    /// The mean size of the errors of correct policies, and that of predicting no change, as shares.
    pub fn mean_errors(&self) -> Option<(f64, f64)> {
        let correct: Vec<&Scored> = self.policies.iter().filter(|s| s.correct).collect();
        let mean =
            |f: fn(&Scored) -> f64| correct.iter().map(|s| f(s).abs()).sum::<f64>() / correct.len() as f64;
        (!correct.is_empty()).then(|| (mean(|s| s.error), mean(|s| s.error_of_no_change)))
    }

    /// As a page of its own, in Markdown.
    pub fn render(&self) -> String {
        format!("# The prediction, scored\n\n{}", self.body())
    }

    /// The same without its title.
    pub fn body(&self) -> String {
        let rows = self.policies.iter().map(|s| {
            let ratio = |i: Interval| format!("{:.3} [{:.3}, {:.3}]", i.median, i.lo, i.hi);
            let counted = s.emitted.1.map_or("-".into(), |n| format!("{n:.1}"));
            vec![
                s.model.clone(),
                s.policy.clone(),
                format!("{:.1}", s.emitted.0),
                counted,
                ratio(s.predicted),
                ratio(s.measured),
                format!("{:+.1}%", 100.0 * s.error),
                format!("{:+.1}%", 100.0 * s.error_of_no_change),
                match (s.correct, s.intervals_meet) {
                    (false, _) => "incorrect, not counted".into(),
                    (true, true) => "hit".into(),
                    (true, false) => "missed".into(),
                },
            ]
        });
        let header = [
            "model",
            "policy",
            "barriers predicted",
            "counted",
            "ratio predicted",
            "ratio measured",
            "error",
            "error of \"no change\"",
            "",
        ];
        let mut text = format!(
            "Made {} s before the run began. Rates are ratios to `stock`'s; *hit* where the two \
             intervals meet.\n\n{}\n\n",
            self.seconds_before,
            table(&header, rows, &[2, 3, 4, 5, 6, 7])
        );
        if let Some((own, lazy)) = self.mean_errors() {
            let skill = if own < lazy { "It beats" } else { "It does not beat" };
            text.push_str(&format!(
                "- Mean size of the error over correct policies: {:.1}%; of predicting no change: {:.1}%. {skill} the \
                 latter.\n",
                100.0 * own,
                100.0 * lazy
            ));
        }
        for note in &self.notes {
            text.push_str(&format!("- {note}\n"));
        }
        text
    }
}

#[cfg(test)]
#[path = "score_tests.rs"]
mod tests;
