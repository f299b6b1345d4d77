//! The scenarios of Khronos synchronization validation's own tests, as streams of ours: does the independent model say of
//! each what validation says?
//!
//! The scenarios are what its published tests claim about buffers, in our own words (docs/khronos-scenarios.md names each
//! test); no line of theirs is here. Both judges run: validation on the stream without the layer, and the layer's audit,
//! which is the model of `layer/hazard`, on the same stream.
//!
//! The audit says how many pairs the application has ordered. With a barrier between everything and everything before each
//! command, all pairs that conflict are ordered. So a stream is free of hazards by the model if and only if the two
//! numbers are equal.

use zinc_tests::oracle::{VALIDATION, hazards, oracles, synchronization_validation};
use zinc_tests::stream::scratch;
use zinc_tests::{Stream, artefacts};

/// What is said of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Hazard,
    Fine,
}
use Says::{Fine, Hazard};

/// One scenario: its name on the page, its recordings and submissions, and what the two say.
struct Scenario {
    name: &'static str,
    stream: &'static str,
    khronos: Says,
    model: Says,
}

const fn alike(name: &'static str, both: Says, stream: &'static str) -> Scenario {
    Scenario { name, stream, khronos: both, model: both }
}

const BUFFERS: &str = "buffer a 256\nbuffer b 256\nbuffer c 256\nbuffer d 256\ndata a iota\ndata c words 7\n";

const ORDERED: &str =
    "barrier all_commands/memory_read+memory_write -> all_commands/memory_read+memory_write";

const SCENARIOS: [Scenario; 26] = [
    alike("copy: overwrite what a copy reads", Hazard, "begin x\ncopy a b\ncopy c a\nend\nsubmit x"),
    alike(
        "copy: the same behind a buffer barrier",
        Fine,
        "begin x\ncopy a b\nbuffer-barrier a all_transfer/transfer_read -> all_transfer/transfer_write\ncopy c a\nend\nsubmit x",
    ),
    alike(
        "copy: halves side by side",
        Fine,
        "begin x\ncopy c[0:128] a[0:128]\ncopy c[128:128] a[128:128]\nend\nsubmit x",
    ),
    alike(
        "copy: front to back over a half just written",
        Hazard,
        "begin x\ncopy c[128:128] a[128:128]\ncopy c[0:128] a[128:128]\nend\nsubmit x",
    ),
    alike("copy: two copies to one place", Hazard, "begin x\ncopy a b\ncopy c b\nend\nsubmit x"),
    alike(
        "copy: two copies to one place behind a barrier of writes",
        Fine,
        "begin x\ncopy a b\nbarrier all_transfer/transfer_write -> all_transfer/transfer_write\ncopy c b\nend\nsubmit x",
    ),
    alike(
        "copy: a barrier that protects the source and not the target",
        Hazard,
        "begin x\ncopy c b\nbarrier all_transfer/transfer_read -> all_transfer/transfer_write\ncopy b c\nend\nsubmit x",
    ),
    alike(
        "copy, second version: the same with the COPY stage",
        Hazard,
        "begin x\ncopy2 c b\nbarrier2 copy/transfer_read -> copy/transfer_write\ncopy2 b c\nend\nsubmit2 x",
    ),
    alike(
        "copy, second version: a copy of a copy, protected",
        Fine,
        "begin x\ncopy2 c b\nbarrier2 copy/transfer_write -> copy/transfer_read\ncopy2 b d\nend\nsubmit2 x",
    ),
    alike("fill: over what was copied", Hazard, "begin x\ncopy b a\nfill a 1\nend\nsubmit x"),
    alike("update: over what was copied", Hazard, "begin x\ncopy b a\nupdate a[0:4] 10\nend\nsubmit x"),
    alike(
        "secondary: over what the primary wrote",
        Hazard,
        "begin s secondary\ncopy c[0:128] a[0:128]\nend\nbegin x\ncopy c[0:128] a[0:128]\nexecute s\nend\nsubmit x",
    ),
    alike(
        "secondary: one reads what another wrote",
        Hazard,
        "begin s secondary\ncopy c[0:128] a[0:128]\nend\nbegin t secondary\ncopy a[0:128] d[0:128]\nend\n\
         begin x\nexecute s t\nend\nsubmit x",
    ),
    alike(
        "secondary: one overwrites what another reads",
        Hazard,
        "begin s secondary\ncopy c[0:128] a[0:128]\nend\nbegin t secondary\ncopy b[0:128] c[0:128]\nend\n\
         begin x\nexecute s t\nend\nsubmit x",
    ),
    alike(
        "secondary: the same with an execution barrier in a third",
        Fine,
        "begin s secondary\ncopy c[0:128] a[0:128]\nend\nbegin e secondary\nbarrier all_transfer -> all_transfer\nend\n\
         begin t secondary\ncopy b[0:128] c[0:128]\nend\nbegin x\nexecute s e t\nend\nsubmit x",
    ),
    alike("dispatch: reads what was copied", Hazard, "begin x\ncopy a b\ndispatch step b d\nend\nsubmit x"),
    alike(
        "dispatch: reads what was copied, protected",
        Fine,
        "begin x\ncopy a b\nbarrier all_transfer/transfer_write -> compute_shader/shader_read\ndispatch step b d\nend\nsubmit x",
    ),
    alike(
        "dispatch: writes what is copied from",
        Hazard,
        "begin x\ncopy b d\ndispatch step a b\nend\nsubmit x",
    ),
    alike(
        "dispatch: writes what is copied from, behind an execution barrier",
        Fine,
        "begin x\ncopy b d\nbarrier all_transfer -> compute_shader\ndispatch step a b\nend\nsubmit x",
    ),
    alike(
        "dispatch: an execution barrier where a memory barrier is due",
        Hazard,
        "begin x\ndispatch step a b\nbarrier compute_shader -> compute_shader\ndispatch step b d\nend\nsubmit x",
    ),
    alike(
        "chain: two barriers through the transfer stage",
        Fine,
        "begin x\ndispatch step a b\nbarrier compute_shader/shader_write -> all_transfer\n\
         barrier all_transfer -> compute_shader/shader_read\ndispatch step b d\nend\nsubmit x",
    ),
    alike(
        "queue: the second submission overwrites what the first reads",
        Hazard,
        "begin x\ncopy a b\nend\nbegin y\ncopy c a\nend\nsubmit x\nsubmit y",
    ),
    alike(
        "queue: a barrier at the beginning of the second submission",
        Fine,
        "begin x\ncopy a b\nend\nbegin y\nbarrier all_transfer/transfer_read -> all_transfer/transfer_write\ncopy c a\nend\n\
         submit x\nsubmit y",
    ),
    // Between two writes the memory model wants availability and order, and no visibility: see the page.
    Scenario {
        name: "overwrite: what was made available and visible to reads alone",
        stream: "begin x\ncopy a b\nbarrier all_transfer/transfer_write -> all_transfer/transfer_read\ncopy c b\nend\nsubmit x",
        khronos: Hazard,
        model: Fine,
    },
    // The model has no host that waits: see the page.
    Scenario {
        name: "queue: a wait for the queue in between",
        stream: "begin x\ncopy a b\nend\nbegin y\ncopy c a\nend\nsubmit x\nwait\nsubmit y",
        khronos: Fine,
        model: Hazard,
    },
    // Ranges are widened to 64 bytes: see the page.
    Scenario {
        name: "granule: neighbours within 64 bytes",
        stream: "begin x\ncopy c[0:32] a[0:32]\ncopy c[32:32] a[32:32]\nend\nsubmit x",
        khronos: Fine,
        model: Hazard,
    },
];

fn program(scenario: &Scenario) -> Stream {
    Stream::new(format!("{BUFFERS}{}\nwait\n", scenario.stream))
}

/// The stream with a barrier between everything and everything before each command.
fn ordered(stream: &Stream) -> Stream {
    let mut text = String::new();
    let mut records = false;
    for line in stream.text().lines() {
        let verb = line.split_whitespace().next().unwrap_or("");
        records &= verb != "end";
        if records {
            text += &format!("{ORDERED}\n");
        }
        records |= verb == "begin";
        text += &format!("{line}\n");
    }
    Stream::new(text)
}

fn required(stream: &Stream, granule: &str) -> u64 {
    let played = stream.with(|layer| layer.policy("stock").set("AUDIT", "1").set("GRANULE", granule));
    played.report.and_then(|report| report.audit).expect("it was audited").required
}

fn model_says(stream: &Stream, granule: &str) -> Says {
    match required(stream, granule) == required(&ordered(stream), granule) {
        true => Fine,
        false => Hazard,
    }
}

#[test]
fn the_model_says_of_khronos_own_scenarios_what_validation_says() {
    let Some(oracles) = oracles("the_model_says_of_khronos_own_scenarios_what_validation_says") else {
        return;
    };
    let mut faults = Vec::new();
    for scenario in &SCENARIOS {
        let stream = program(scenario);
        let folder = scratch();
        let player = artefacts::stream().display().to_string();
        let ended = oracles
            .child(&player, folder.path())
            .arg("-")
            .input(stream.text())
            .envs(&synchronization_validation())
            .env("VK_INSTANCE_LAYERS", VALIDATION)
            .run()
            .succeeded();
        let said = format!("{}{}", ended.stdout, ended.stderr);
        let khronos = if hazards(&said).is_empty() { Fine } else { Hazard };
        let model = model_says(&stream, "64");
        if (khronos, model) != (scenario.khronos, scenario.model) {
            faults.push(format!("{}: validation says {khronos:?}, the model {model:?}", scenario.name));
        }
    }
    let version = oracles.version("vulkan-validationlayers");
    assert!(faults.is_empty(), "validation {version}:\n{}", faults.join("\n"));
}

#[test]
fn with_a_granule_of_one_byte_neighbours_are_apart_for_the_model_too() {
    let neighbours = SCENARIOS.iter().find(|s| s.name.starts_with("granule")).expect("it is in the table");
    assert_eq!(model_says(&program(neighbours), "1"), Fine);
}

#[test]
fn every_scenario_is_on_the_page_and_says_there_what_it_says_here() {
    let page = std::fs::read_to_string(artefacts::repository().join("docs/khronos-scenarios.md"))
        .expect("the page is in the repository");
    for scenario in &SCENARIOS {
        let word = |says| if says == Hazard { "hazard" } else { "fine" };
        let row = format!("| {} | {} | {} |", scenario.name, word(scenario.khronos), word(scenario.model));
        assert!(page.contains(&row), "the page lacks: {row}");
    }
    assert_eq!(
        page.lines().filter(|l| l.contains("| hazard |") || l.contains("| fine |")).count(),
        SCENARIOS.len()
    );
}
