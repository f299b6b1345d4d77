//! Does `reorder` need as few barriers as there can be? On real streams, counted by another program.
//!
//! The layer writes down what it saw (`ZINC_BARRIER_TRACE`). This file reads the operations and the asked barriers from
//! it, and nothing of what was decided, and finds the heaviest path by itself: an edge for each pair of operations with
//! accesses to common bytes, one of them a write; of weight 1 where a barrier between the two names both sides, of
//! weight 0 otherwise. Before each stretch and behind it stands something that did everything. The number of barriers
//! that reached the driver must be that weight.
//!
//! Chains of several barriers are not followed here: the streams below ask for barriers that cover both sides at once.

use serde_json::Value;
use std::fs;
use zinc_tests::artefacts::{self, repository};
use zinc_tests::oracle::oracles;
use zinc_tests::stream::scratch;
use zinc_tests::{Child, Layer, vulkan};

const EVERYTHING: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Access {
    write: bool,
    /// Allocation, first byte, end; `None` is anywhere.
    bytes: Option<(u64, u64, u64)>,
    stages: u64,
    flags: u64,
}

struct Barrier {
    before: usize,
    src: (u64, u64),
    dst: (u64, u64),
}

/// Bits that stand for others, as far as these streams have them: ALL_COMMANDS, ALL_TRANSFER; SHADER_READ, SHADER_WRITE,
/// MEMORY_READ, MEMORY_WRITE.
fn spelled((stages, flags): (u64, u64)) -> (u64, u64) {
    let mut out = (stages, flags);
    if stages & (1 << 16) != 0 {
        out.0 = EVERYTHING & !(1 << 14);
    }
    if stages & (1 << 12) != 0 {
        out.0 |= 0xf << 32;
    }
    for (bit, named) in [(5, 3 << 32), (6, 1 << 34), (15, EVERYTHING), (16, EVERYTHING)] {
        if flags & (1 << bit) != 0 {
            out.1 |= named;
        }
    }
    out
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn access(value: &Value) -> Access {
    let bytes = value[1].as_array().map(|b| (number(&b[0]), number(&b[1]), number(&b[2])));
    Access { write: value[0] == "write", bytes, stages: number(&value[2]), flags: number(&value[3]) }
}

fn meet(a: &Access, b: &Access) -> bool {
    (a.write || b.write)
        && match (a.bytes, b.bytes) {
            (Some((m, s, e)), Some((n, t, f))) => m == n && s.max(t) < e.min(f),
            _ => true,
        }
}

/// Whether `barrier` orders two conflicting accesses that stand on its two sides.
fn orders(barrier: &Barrier, a: &Access, b: &Access) -> bool {
    let (src, dst) = (spelled(barrier.src), spelled(barrier.dst));
    // A first scope takes the stages before the compute stage with it: the arguments of indirect dispatches.
    let before = src.0 | if src.0 & (1 << 11) != 0 { 1 << 1 } else { 0 };
    let available = !a.write || (src.0 & a.stages != 0 && src.1 & a.flags != 0);
    let visible = !a.write || b.write || (dst.0 & b.stages != 0 && dst.1 & b.flags != 0);
    before & a.stages != 0 && available && visible && dst.0 & b.stages != 0
}

/// The weight of the heaviest path of one line of a trace.
fn heaviest_path(line: &Value) -> usize {
    let mut operations: Vec<Vec<Access>> = list(&line["operations"])
        .iter()
        .map(|operation| list(&operation["accesses"]).iter().map(access).collect())
        .collect();
    let fixed: Vec<bool> = list(&line["operations"]).iter().map(|o| o["stays"] == true).collect();
    assert!(fixed.iter().all(|stays| !stays), "these streams have no operations that stay");
    let anything =
        [true, false].map(|write| Access { write, bytes: None, stages: EVERYTHING, flags: EVERYTHING });
    let barriers: Vec<Barrier> = list(&line["asked"])
        .iter()
        .map(|asked| {
            let s = list(&asked["scopes"]);
            Barrier {
                before: number(&asked["before"]) as usize,
                src: (number(&s[0]), number(&s[1])),
                dst: (number(&s[2]), number(&s[3])),
            }
        })
        .collect();
    operations.insert(0, anything.to_vec());
    operations.push(anything.to_vec());
    let end = operations.len() - 1;
    let mut weight = vec![0; end + 1];
    // Nothing moves across the first barrier that is due to what came before.
    let mut wall = 0;
    for later in 1..=end {
        let mut heaviest = wall;
        for earlier in 0..later {
            let pairs = || {
                let (a, b) = (&operations[earlier], &operations[later]);
                a.iter().flat_map(move |a| b.iter().map(move |b| (a, b))).filter(|(a, b)| meet(a, b))
            };
            // A barrier before operation g stands behind node g and before node g + 1.
            let between = || barriers.iter().filter(|b| earlier <= b.before && b.before < later);
            let required = pairs().any(|(a, b)| between().any(|barrier| orders(barrier, a, b)));
            if required {
                heaviest = heaviest.max(weight[earlier] + 1);
            } else if pairs().next().is_some() && earlier != 0 && later != end {
                heaviest = heaviest.max(weight[earlier]);
            }
            if required && earlier == 0 && later != end {
                wall = 1;
            }
        }
        weight[later] = heaviest;
    }
    weight.into_iter().max().unwrap_or(0)
}

/// Runs something under `policy` with a trace. The result is the weight of all heaviest paths, and the barriers emitted
/// in the recordings.
fn counted(policy: &str, run: impl Fn(&Layer, &std::path::Path)) -> (u64, u64) {
    let folder = scratch();
    let trace = folder.path().join("trace");
    let layer = Layer::new(folder.path()).policy(policy).set("TRACE", &trace).set("AUDIT", "1");
    run(&layer, folder.path());
    let report = layer.report();
    let audit = report.audit.expect("it was asked for");
    assert!(audit.required > 0 && audit.violations == 0, "{policy}: {audit:?}");
    let witnesses = report.witnesses.expect("a trace asks for them");
    assert!(witnesses.len() > 2 && witnesses.windows(2).all(|w| w[0].count >= w[1].count), "{witnesses:?}");
    let text = fs::read_to_string(&trace).expect("the trace was written");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let paths: u64 = lines.map(|line| heaviest_path(&line) as u64).sum();
    (paths, report.recorded.barriers_emitted - report.recorded.barriers_passed_through)
}

fn is_least(what: &str, run: impl Fn(&Layer, &std::path::Path)) {
    let (paths, reordered) = counted("reorder", &run);
    println!("{what}: {reordered} barriers under reorder, heaviest paths of {paths}");
    assert!(reordered > 0);
    assert_eq!(reordered, paths, "{what}");
    let (_, narrow) = counted("narrow", &run);
    assert!(narrow >= reordered, "{what}: narrow {narrow}, reorder {reordered}");
    // The control: what the application asks for is more than the heaviest paths, counted in the same way.
    let (again, asked) = counted("stock", &run);
    assert!(again == paths && asked > paths, "{what}: {asked} under stock, heaviest paths of {again}");
}

#[test]
fn the_engine_under_reorder_emits_as_many_barriers_as_the_heaviest_path_has_required_pairs() {
    is_least("the engine", |layer, folder| {
        Child::new(artefacts::engine())
            .envs(&vulkan::environment(folder))
            .envs(&layer.environment())
            .args(["perplexity", "--tokens", "6", "--ctx", "6", "--json"])
            .limit(200)
            .run()
            .succeeded();
    });
}

#[test]
fn llama_cpp_under_reorder_emits_as_many_barriers_as_the_heaviest_paths_have_required_pairs() {
    let test = "llama_cpp_under_reorder_emits_as_many_barriers_as_the_heaviest_paths_have_required_pairs";
    let Some(oracles) = oracles(test) else { return };
    is_least("llama.cpp", |layer, folder| {
        oracles
            .child("llama-completion", folder)
            .env("MESA_SHADER_CACHE_DIR", artefacts::stream().with_file_name("test-shader-cache"))
            .args(["-ngl", "99", "-t", "1", "-m"])
            .arg(repository().join("engine/model/embedded-q8_0.gguf"))
            .args(["-p", "The king", "-n", "4", "--temp", "0", "-no-cnv", "--no-warmup"])
            .envs(&layer.environment())
            .limit(300)
            .run()
            .succeeded();
    });
}

/// The trace that ships with the kit: llama.cpp (ggml 0.27.0-1) on lavapipe, a prompt and two tokens of the embedded model.
fn shipped() -> Vec<Value> {
    let text =
        fs::read_to_string(repository().join("tests/data/llama-cpp.trace")).expect("the trace is there");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// What was recorded, for the planner of today.
fn stretch(line: &Value) -> zinc_hazard::Stretch {
    use zinc_hazard::{Access, Flags, Kind, MemoryId, Range, Scope, Stages, Stretch};
    let scope = |stages: &Value, flags: &Value| Scope {
        stages: Stages::from_bits_retain(number(stages)),
        flags: Flags::from_bits_retain(number(flags)),
    };
    let mut asked = list(&line["asked"]).iter().peekable();
    let mut stretch = Stretch::new();
    for (at, operation) in list(&line["operations"]).iter().enumerate() {
        while let Some(barrier) = asked.next_if(|barrier| number(&barrier["before"]) as usize == at) {
            let s = list(&barrier["scopes"]);
            stretch.asked(zinc_hazard::Barrier { src: scope(&s[0], &s[1]), dst: scope(&s[2], &s[3]) });
        }
        let accesses = list(&operation["accesses"]).iter().map(access).map(|a| Access {
            range: a.bytes.map_or(Range::Anywhere, |(memory, start, end)| Range::Bytes {
                memory: MemoryId(memory),
                start,
                end,
            }),
            kind: if a.write { Kind::Write } else { Kind::Read },
            stages: Stages::from_bits_retain(a.stages),
            flags: Flags::from_bits_retain(a.flags),
        });
        stretch.operation(&accesses.collect::<Vec<_>>(), operation["stays"] == true);
    }
    for barrier in asked {
        let s = list(&barrier["scopes"]);
        stretch.asked(zinc_hazard::Barrier { src: scope(&s[0], &s[1]), dst: scope(&s[2], &s[3]) });
    }
    stretch
}

#[test]
fn the_shipped_trace_of_llama_cpp_needs_as_many_barriers_as_its_heaviest_paths_have_required_pairs() {
    let lines = shipped();
    let (mut operations, mut asked, mut paths) = (0, 0, 0);
    for (at, line) in lines.iter().enumerate() {
        let heaviest = heaviest_path(line);
        let planned = stretch(line).plan(zinc_hazard::Freedom::AnyOrder).emissions.len();
        assert_eq!(planned, heaviest, "stretch {at}, planned today");
        assert_eq!(list(&line["emissions"]).len(), heaviest, "stretch {at}, when it was recorded");
        operations += list(&line["operations"]).len();
        asked += list(&line["asked"]).len();
        paths += heaviest;
    }
    println!("the shipped trace: {operations} operations, {asked} barriers asked, heaviest paths of {paths}");
    assert!(
        operations > 250 && paths > 150 && paths < asked,
        "{operations} operations, {asked} asked, {paths}"
    );
    // The control: without the barriers that it asked for, nothing is required.
    let longest =
        lines.iter().max_by_key(|line| list(&line["operations"]).len()).expect("there are stretches");
    let mut mute = longest.clone();
    mute["asked"] = Value::Array(Vec::new());
    assert!(heaviest_path(&mute) == 0 && heaviest_path(longest) > 50);
}
