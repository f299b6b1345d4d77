//! `engine ops`.

use super::{device_line, open_device, print_json, print_text, progress};
use crate::cli::{Common, OpsArgs};
use crate::error::Error;
use crate::ops;
use crate::results::Ops;

pub(super) fn execute(common: &Common, args: &OpsArgs) -> Result<(), Error> {
    let device = open_device(common)?;
    let tuning = device.tuning();
    let wanted = |kernel: &str| args.only.is_empty() || args.only.iter().any(|part| kernel.contains(part));
    let cases = ops::cases(&device, &tuning, wanted)?;
    if cases.count() == 0 {
        let text = format!("no kernel that this device runs has {} in its name", args.only.join(" or "));
        return Err(Error::Usage(text));
    }
    let bar = progress(cases.count() as u64, "cases");
    let result = ops::run(&device, &cases, |_| bar.inc(1))?;
    bar.finish_and_clear();
    if common.json {
        print_json(&result)?;
    } else {
        print_text(&table(&result))?;
    }
    if result.passed < result.total {
        let failed = result.total - result.passed;
        return Err(Error::Ops(format!(
            "{failed} of {} cases disagree with the CPU reference",
            result.total
        )));
    }
    if result.controls_caught < result.controls {
        return Err(Error::Ops("a perturbed input went unnoticed: the comparison is blind".to_owned()));
    }
    Ok(())
}

fn table(r: &Ops) -> String {
    let mut lines = vec![device_line(&r.device)];
    for case in &r.cases {
        let mark = if case.passed { "ok" } else { "FAIL" };
        let mut line =
            format!("{mark:4} {:13} {:66} {:.3} of tolerance", case.kernel, case.shape, case.worst);
        if let Some(detail) = &case.detail {
            line.push_str(&format!("\n     {detail}"));
        }
        lines.push(line);
    }
    lines.push(format!(
        "{}/{} cases passed; {}/{} controls (one perturbed input each) caught",
        r.passed, r.total, r.controls_caught, r.controls
    ));
    lines.join("\n")
}
