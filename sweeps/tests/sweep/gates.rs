//! The gates that have programs of their own: each passes what is right, fails what is wrong, and is blind where its own
//! control goes unnoticed.

use zinc_sweeps::report::Arm;

use crate::bench::{Bench, Swept};

/// The gates, and what stands behind the names of their runs.
const GATES: [(&str, &str); 4] =
    [("ops", "ops"), ("backend-ops", "backend-ops"), ("validation", "validation"), ("graphics", "pictures")];

fn sweep(bench: &Bench, gates: &str, more: &[&str]) -> Swept {
    let tools = bench.tools();
    let mut args: Vec<&str> = vec!["--policy", "alias-only", "--gates", gates];
    args.extend(tools.iter().map(String::as_str));
    args.extend(more);
    bench.sweep(&args)
}

fn arm<'a>(swept: &'a Swept, policy: &str) -> &'a Arm {
    let own = |a: &&Arm| a.policy.as_deref() == Some(policy) && a.shuffle == "off";
    swept.report().arms.iter().find(own).unwrap()
}

#[test]
fn every_gate_passes_what_is_right_and_says_how_many_drops_it_noticed() {
    let bench = Bench::new();
    let swept = sweep(&bench, "bits,perplexity,ops,backend-ops,validation,graphics", &[]).expect(0);
    assert_eq!(swept.verdict("alias-only", "off").0, "verified");
    for (gate, _) in GATES {
        assert_eq!(swept.gate(gate, "alias-only").0, "pass", "{gate}");
        let found = swept.report().gates.iter().find(|g| g.gate == gate && g.policy == "alias-only").unwrap();
        assert_eq!(found.control_caught, Some(true), "{gate}");
        let mutation = found.mutation.as_ref().unwrap();
        assert_eq!((mutation.caught, mutation.tried), (3, 3), "{gate}");
        assert_eq!(arm(&swept, "alias-only").gates[gate].mutation.unwrap().caught, 3);
    }
    // Drawn from those that the trace says are forced, all of which a gate can notice; the first barrier is not.
    let dropped =
        |run: &&String| run.contains("drop=") && GATES.iter().any(|(_, p)| run.ends_with(&format!(",{p}")));
    assert!(bench.runs().iter().filter(dropped).all(|run| !run.contains("drop=0,")), "{:?}", bench.runs());
    assert_eq!(bench.runs().iter().filter(dropped).count(), 3 * GATES.len());
    // What other programs do is no part of the arm's own table.
    let arms = &swept.report().arms;
    assert_eq!(arms.iter().filter(|a| a.policy.as_deref() == Some("alias-only")).count(), 5, "{arms:?}");
}

#[test]
fn a_gate_of_its_own_program_refutes_a_policy_whose_numbers_are_right_and_names_the_case() {
    for ((gate, program), case) in
        GATES.into_iter().zip(["norm n=7", "ADD(type=f32)", "READ-AFTER-WRITE", "mips"])
    {
        let bench = Bench::new().with(&format!("alias-only,{program}"), "wrong");
        let swept = sweep(&bench, &format!("bits,{gate}"), &[]).expect(1);
        let (word, reason) = swept.verdict("alias-only", "off");
        assert!(word == "refuted" && reason.contains(case), "{gate}: {word}, {reason}");
        assert_eq!(swept.gate(gate, "alias-only").0, "fail");
        assert_eq!(swept.gate("bits", "alias-only").0, "pass", "{gate}: the numbers were right");
        let failing = &arm(&swept, "alias-only").failing;
        assert!(failing.iter().any(|f| f.starts_with(gate) && f.contains(case)), "{gate}: {failing:?}");
        assert_eq!(swept.verdict("stock", "off").0, "reference");
    }
}

#[test]
fn a_gate_whose_control_goes_unnoticed_is_blind_and_the_arm_is_not_verified() {
    for (gate, program) in GATES {
        let control = if gate == "validation" { "none" } else { "none,shuffle=reverse" };
        let bench = Bench::new().with(&format!("{control},{program}"), "right");
        let swept = sweep(&bench, &format!("bits,{gate}"), &["--drops", "0"]).expect(1);
        assert_eq!(swept.gate(gate, "alias-only").0, "blind", "{gate}");
        let (word, reason) = swept.verdict("alias-only", "off");
        assert!(word == "unproven" && reason.contains(gate), "{gate}: {word}, {reason}");
    }
}

#[test]
fn a_program_that_crashes_or_prints_something_else_has_answered_nothing() {
    for (how, named) in
        [("segv", "SIGSEGV"), ("garbage", "no result of graphics"), ("noreport", "not loaded")]
    {
        let bench = Bench::new().with("alias-only,pictures", how);
        let swept = sweep(&bench, "bits,graphics", &["--drops", "0"]).expect(1);
        let (word, reason) = swept.gate("graphics", "alias-only");
        assert!(word == "not-run" && reason.contains(named), "{how}: {word}, {reason}");
        assert_eq!(swept.verdict("alias-only", "off").0, "unproven", "{how}");
    }
}

#[test]
fn without_its_program_a_gate_is_an_error_before_the_first_run() {
    for (gate, named) in
        [("graphics", "zinc-tests"), ("validation", "tests/oracles"), ("backend-ops", "tests/oracles")]
    {
        let bench = Bench::new();
        let swept =
            bench.sweep(&["--gates", gate, "--oracles", "nowhere", "--pictures", "nowhere"]).expect(3);
        assert!(swept.stderr.contains(named), "{gate}: {}", swept.stderr);
        assert!(bench.runs().is_empty() && !bench.path("out").exists());
    }
    Bench::new().sweep(&["--gates", "guesses"]).expect(2);
    let bench = Bench::new();
    let app = bench.application();
    assert!(bench.sweep(&["--app", &app, "--gates", "ops"]).expect(2).stderr.contains("--check"));
}

#[test]
fn the_narrowest_mask_has_to_pass_the_other_gates_too() {
    let bench = Bench::new();
    let args =
        ["--ablate", "STAND_IN_MASK=0x7", "--narrowest", "STAND_IN_MASK", "--reps", "1", "--drops", "0"];
    let swept = sweep(&bench, "bits,graphics", &args).expect(1);
    let notes = &swept.report().notes;
    assert!(notes.iter().any(|n| n.contains("Narrowest: STAND_IN_MASK=0x5 ")), "{notes:?}");
    let alike = notes.iter().find(|n| n.contains("STAND_IN_MASK without bit 2")).unwrap();
    assert!(alike.contains("graphics mips") && alike.contains("bits, in order"), "{alike}");
    assert!(bench.runs().iter().any(|run| run == "stock,pictures"));
}

#[test]
fn a_soak_without_a_bad_record_says_what_the_rate_is_below() {
    let bench = Bench::new();
    let swept = bench.sweep(&["--policy", "alias-only", "--soak", "100", "--drops", "0"]).expect(0);
    // 100 tokens in runs of 128 that decode 32 each, of two records: one run.
    let soak = swept.report().soaks.iter().find(|s| s.policy == "alias-only").unwrap();
    assert_eq!((soak.records, soak.bad, soak.failed), (2, 0, 0));
    assert!(swept.stdout.contains("Soak of alias-only"), "{}", swept.stdout);
    let control = swept.report().soaks.iter().find(|s| s.control).unwrap();
    assert_eq!((control.policy.as_str(), control.shuffle.as_str()), ("none", "reverse"));
    assert_eq!((control.records, control.bad), (2, 1), "the stand-in has one record that is always right");
    let args = ["--policy", "alias-only", "--soak", "320", "--tokens", "32", "--drops", "0", "--force"];
    let swept = bench.sweep(&args).expect(0);
    let soak = swept.report().soaks.iter().find(|s| s.policy == "alias-only").unwrap();
    assert_eq!((soak.tokens, soak.records, soak.bad), (320, 20, 0));
    assert!((soak.bound - 3.0 / 20.0).abs() < 1e-12);
}

#[test]
fn a_soak_whose_control_shows_nothing_is_blind_and_the_sweep_does_not_end_well() {
    let args = ["--policy", "alias-only", "--soak", "100", "--drops", "0"];
    let bench = Bench::new().with("none,shuffle=reverse,soak", "right");
    let swept = bench.sweep(&args).expect(1);
    assert_eq!(swept.verdict("alias-only", "off").0, "verified", "the gates' own control was noticed");
    assert!(swept.stdout.contains("NOT NOTICED"), "{}", swept.stdout);
    // A control that crashes shows as little.
    let swept = Bench::new().with("none,shuffle=reverse,soak", "segv").sweep(&args).expect(1);
    let control = swept.report().soaks.iter().find(|s| s.control).unwrap();
    assert_eq!((control.records, control.failed), (0, 1));
}

#[test]
fn the_window_gate_refutes_a_picture_that_is_wrong_on_the_screen_only_and_has_a_control() {
    let swept = sweep(&Bench::new(), "bits,window", &[]).expect(0);
    let passed =
        swept.report().gates.iter().find(|g| g.gate == "window" && g.policy == "alias-only").unwrap();
    assert_eq!((passed.control_caught, passed.mutation.as_ref().unwrap().caught), (Some(true), 3));

    // Off-screen all is well.
    let bench = Bench::new().with("alias-only,window", "wrong");
    let swept = sweep(&bench, "graphics,window", &["--drops", "0"]).expect(1);
    let (word, reason) = swept.gate("window", "alias-only");
    assert!(word == "fail" && reason.contains("mips"), "{word}, {reason}");
    assert_eq!(swept.gate("graphics", "alias-only").0, "pass");
    assert_eq!(swept.verdict("alias-only", "off").0, "refuted");

    let bench = Bench::new().with("none,shuffle=reverse,window", "right");
    let swept = sweep(&bench, "bits,window", &["--drops", "0"]).expect(1);
    assert_eq!(swept.gate("window", "alias-only").0, "blind");
}

#[test]
fn a_fault_that_comes_rarely_is_found_by_a_soak_with_its_rate() {
    let bench = Bench::new().with("soak", "rarely");
    let args = ["--policy", "none", "--soak", "640", "--tokens", "32", "--drops", "0"];
    let swept = bench.sweep(&args).expect(1);
    let soak = swept.report().soaks.iter().find(|s| s.policy == "stock").unwrap();
    assert!(soak.records == 40 && soak.bad == 4, "{soak:?}");
    assert!((soak.rate - 0.1).abs() < 1e-12 && soak.bound > soak.rate, "{soak:?}");
    assert_eq!(swept.gate("bits", "stock").0, "fail");
}
