//! Rule 16, held against what shaders really touch: dispatches of the engine and dispatches by address are captured as they
//! are, run again on lavapipe with copies of their shaders that log every access, and no access may leave the bytes that
//! tight ranges take the dispatch to touch. (`layer/reflect/tests/ranges` does the same with generated shaders and with
//! dispatches of llama.cpp that were recorded once; a run of all that llama.cpp dispatches is in docs/ranges.md.)
//!
//! The control is an analysis with a fault, which the same dispatches must find out.

use std::path::Path;

use zinc_tests::artefacts;
use zinc_tests::stream::scratch;
use zinc_tests::{Child, Layer, Stream, vulkan};

/// What was found: dispatches, intervals compared, how many of them behind addresses, how many left their extent.
#[derive(Debug)]
struct Found {
    dispatches: u64,
    compared: u64,
    behind_addresses: u64,
    left: u64,
}

/// Replays a capture, at most `most` dispatches of each pipeline, by an analysis that may have a fault.
fn replay(capture: &Path, most: u32, fault: Option<&str>) -> Found {
    let folder = scratch();
    let mut child = Child::new(artefacts::checked())
        .envs(&vulkan::environment(folder.path()))
        .args(["--most", &most.to_string()])
        .limit(280);
    if let Some(fault) = fault {
        child = child.args(["--fault", fault]);
    }
    let ended = child.arg(capture).run();
    let last = ended.stdout.lines().last().unwrap_or_default().to_owned();
    println!("{fault:?}: {last}");
    // Behind the device's name: "N dispatches of N pipelines, N intervals compared, N of them behind addresses, N left".
    let said = last.rsplit_once("): ").map_or("", |(_, said)| said);
    let mut numbers = said.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    let mut next = || numbers.next().unwrap_or_else(|| panic!("{}", ended.transcript()));
    let (dispatches, _, compared, behind_addresses, left) = (next(), next(), next(), next(), next());
    assert_eq!(ended.status.code(), Some(i32::from(left > 0)), "{}", ended.transcript());
    assert!(left == 0 || fault.is_some(), "{}", ended.transcript());
    Found { dispatches, compared, behind_addresses, left }
}

/// What runs under the layer is captured in the folder's `capture`.
fn capturing(folder: &Path) -> Layer {
    Layer::new(folder).set("RANGES", "tight").set("CAPTURE", folder.join("capture"))
}

#[test]
fn no_access_of_the_engine_leaves_what_its_dispatches_are_taken_to_touch_and_a_fault_is_noticed() {
    for (fusion, at_least) in [("none", 60), ("all", 25)] {
        let folder = scratch();
        Child::new(artefacts::engine())
            .envs(&vulkan::environment(folder.path()))
            .envs(&capturing(folder.path()).environment())
            .args(["perplexity", "--tokens", "5", "--ctx", "5", "--json", "--fusion", fusion])
            .limit(200)
            .run()
            .succeeded();
        let capture = folder.path().join("capture");
        let found = replay(&capture, 4, None);
        assert!(found.compared >= at_least && found.dispatches > 5, "--fusion {fusion}: {found:?}");
        let fault = if fusion == "none" { "loops" } else { "rests" };
        assert!(
            replay(&capture, 4, Some(fault)).left > 0,
            "--fusion {fusion}: nothing notices a fault in {fault}"
        );
    }
}

#[test]
fn no_access_by_an_address_leaves_where_the_address_leads() {
    let folder = scratch();
    let capture = folder.path().join("capture");
    let stream = Stream::new(
        "
        buffer v 4096
        buffer e 1024
        set s
        write s 0 e
        begin x
            bind point
            push 16
            push-address v
            go 4
        end
        begin y
            bind peek
            use s
            push 32
            push-address v
            go 4
        end
        submit x
        wait
        submit y
        wait
    ",
    );
    stream.with(|layer| layer.set("RANGES", "tight").set("CAPTURE", capture.clone()));
    let found = replay(&capture, 4, None);
    assert_eq!((found.dispatches, found.behind_addresses), (2, 2), "{found:?}");
}
