//! For each rule of docs/semantics.md: where the barrier must stay it stays, where it must go it goes, and the memory
//! ends as it does without the layer, in whatever order operations are issued.

use zinc_tests::pairs::{self, Case};

/// Everything that is wrong with what the layer makes of a stream.
fn faults(case: &Case) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expect = |holds: bool, fault: String| {
        if !holds {
            faults.push(format!("{}: {fault}", case.name));
        }
    };
    let stream = &case.stream;
    let truth = stream.bare().digest;
    let stock = stream.under("stock");
    let asked = stock.totals();
    expect(stock.digest == truth, "stock changes the result".into());
    expect(
        asked.barriers_emitted == asked.barriers_asked,
        format!("stock does not emit what was asked: {asked:?}"),
    );

    for policy in ["every", "alias-only", "none"] {
        let played = stream.under(policy);
        let totals = played.totals();
        expect(played.digest == truth, format!("{policy} changes the result, in order"));
        expect(
            (
                totals.dispatches,
                totals.transfers,
                totals.barriers_asked,
                totals.command_buffers,
                totals.submits,
            ) == (
                asked.dispatches,
                asked.transfers,
                asked.barriers_asked,
                asked.command_buffers,
                asked.submits,
            ),
            format!("{policy} counts another stream than stock: {totals:?}, {asked:?}"),
        );
        expect(
            totals.barriers_passed_through == case.passed_through,
            format!(
                "{policy} passes {} barriers through, not {}",
                totals.barriers_passed_through, case.passed_through
            ),
        );
        match policy {
            "every" => expect(
                totals.barriers_added == totals.dispatches && totals.barriers_elided == 0,
                format!("every adds {} barriers to {} dispatches", totals.barriers_added, totals.dispatches),
            ),
            "none" => expect(
                totals.barriers_emitted == case.passed_through,
                format!("none emits {} barriers", totals.barriers_emitted),
            ),
            _ => {
                let forced = [totals.hazards.raw, totals.hazards.war, totals.hazards.waw];
                expect(
                    forced == case.forced,
                    format!("alias-only is forced by {:?}, not {:?}", forced, case.forced),
                );
                expect(
                    totals.barriers_added == 0,
                    format!("alias-only adds {} barriers", totals.barriers_added),
                );
            }
        }
    }
    let most = stream.under("alias-only").totals().barriers_emitted;
    for (policy, shuffle) in
        [("narrow", "reverse"), ("narrow", "1"), ("reorder", "off"), ("reorder", "reverse")]
    {
        let played = stream.shuffled(policy, shuffle);
        expect(played.digest == truth, format!("{policy} with shuffle={shuffle} changes the result"));
        let emitted = played.totals().barriers_emitted;
        expect(emitted <= most, format!("{policy} emits {emitted}, alias-only {most}"));
    }
    for shuffle in ["reverse", "1", "2"] {
        let shuffled = stream.shuffled("alias-only", shuffle);
        expect(shuffled.digest == truth, format!("alias-only with shuffle={shuffle} changes the result"));
    }
    if case.visible {
        let control = stream.shuffled("none", "reverse");
        expect(control.digest != truth, "the control is blind: without barriers nothing changes".into());
    }
    faults
}

/// # Panics
///
/// With all faults of all cases.
fn check(cases: Vec<Case>) {
    assert!(!cases.is_empty());
    let faults: Vec<String> = cases.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{} faults in {} streams:\n{}", faults.len(), cases.len(), faults.join("\n"));
}

#[test]
fn between_dispatches() {
    check(pairs::dispatches());
}

#[test]
fn by_where_the_accesses_are() {
    check(pairs::places());
}

#[test]
fn between_dispatches_and_transfers() {
    check(pairs::transfers());
}

#[test]
fn across_command_buffers_and_submits() {
    check(pairs::recordings());
}

#[test]
fn at_points_where_everything_must_go_out() {
    check(pairs::flushes());
}
