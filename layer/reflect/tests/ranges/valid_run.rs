//! Valid SPIR-V of several front ends for about a minute, and the controls: faults in reading modules are noticed, and
//! spirv-val refuses what is broken.
//!
//! `ZINC_BARRIER_VALID_SEED` gives the seed that a failure prints, `ZINC_BARRIER_VALID_SECONDS` another time. An hour of the
//! same is `tests/fuzz --valid-spirv --minutes 60`.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use zinc_reflect::Fault;

use crate::gpu::Gpu;
use crate::valid::{Case, FrontEnd, Kind, Run, accepted, available, broken};

/// A number from the environment.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is '{text}', which is no number")))
}

/// The front ends that are there. Of the others stderr says that they were not run, and so do the last lines of `tests/run`.
fn front_ends() -> Vec<FrontEnd> {
    let (there, missing) = available();
    for missing in missing {
        let line = format!("not-run: valid SPIR-V of {missing}");
        eprintln!("{line}");
        if let Some(path) = std::env::var_os("ZINC_BARRIER_NOT_RUN") {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
            let written = file.and_then(|mut file| writeln!(file, "{line}"));
            written.unwrap_or_else(|error| panic!("cannot note in {}: {error}", path.display()));
        }
    }
    there
}

/// A device of its own, so that the other tests need not wait for a minute.
fn gpu() -> Gpu {
    Gpu::open().unwrap_or_else(|error| panic!("no CPU device ({error}): run tests/setup"))
}

#[test]
fn no_access_of_a_valid_module_leaves_what_is_said_of_it() {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let seed = number("ZINC_BARRIER_VALID_SEED").unwrap_or(clock);
    let time = Duration::from_secs(number("ZINC_BARRIER_VALID_SECONDS").unwrap_or(60));
    let (gpu, front_ends) = (gpu(), front_ends());
    let run = Run { gpu: &gpu, front_ends: &front_ends, seed, first: 0, most: u64::MAX, time, keep: None };
    let outcome = run.run(|finding| eprintln!("{finding}"));
    let all = outcome.all();
    println!("seed {seed}\n{}", outcome.table());
    assert!(all.findings.is_empty(), "seed {seed}: {:#?}", all.findings);
    // A run in which few cases were judged must not pass.
    let judged = all.cases - all.refused - all.not_logged;
    assert!(
        all.seen > 0 && 10 * judged >= 7 * all.cases,
        "seed {seed}: {judged} of {} were judged",
        all.cases
    );
    assert!(all.unknown.is_empty(), "seed {seed}: modules of which nothing is known: {:?}", all.unknown);
}

#[test]
fn faults_in_reading_modules_are_noticed() {
    let (gpu, front_ends, folder) = (gpu(), front_ends(), tempfile::tempdir().expect("a temporary folder"));
    let mut open = vec![
        Fault::LastIsTerminator,
        Fault::GroupsIgnored,
        Fault::WidthsIgnored,
        Fault::LoopsEndEarly,
        Fault::StrictIsStricter,
        Fault::RestsAreSmaller,
    ];
    for number in 0..150 {
        let Ok(case) = Case::new(folder.path(), &front_ends, 1, number, gpu.address) else { continue };
        let Some(seen) = case.seen(&gpu).expect("the logging copy runs") else { continue };
        let sound = case.judge(&seen, gpu.address, Fault::None);
        assert!(sound.findings.is_empty(), "{}: {:?}", case.how, sound.findings);
        open.retain(|fault| {
            let noticed = !case.judge(&seen, gpu.address, *fault).findings.is_empty();
            if noticed {
                println!("{fault:?} is noticed by case {number}: {}", case.how);
            }
            !noticed
        });
        if open.is_empty() {
            return;
        }
    }
    panic!("nothing notices {open:?}");
}

#[test]
fn a_broken_module_is_refused_by_spirv_val() {
    let (front_ends, folder) = (front_ends(), tempfile::tempdir().expect("a temporary folder"));
    let (mut tried, mut rng) = (0, Rng::with_seed(3));
    for number in 0..40 {
        let Ok(case) = Case::new(folder.path(), &front_ends, 2, number, 0) else { continue };
        let Some(module) = broken(&case.changed, &mut rng) else { continue };
        if case.kinds.contains(&Kind::Untyped) {
            continue;
        }
        assert!(accepted(folder.path(), &case.changed), "{}", case.how);
        assert!(!accepted(folder.path(), &module), "a broken module is accepted: {}", case.how);
        tried += 1;
        if tried == 8 {
            return;
        }
    }
    panic!("only {tried} modules could be broken");
}
