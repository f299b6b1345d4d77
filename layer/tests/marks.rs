//! Commands that touch no memory and keep their place: queries, timestamps and debug labels. They are no reason to emit what
//! waits, nothing moves across a query, and a label moves with what it encloses.

mod mock;
mod rig;

use ash::vk;
use rig::{Rig, app_with};
use std::ffi::CStr;
use vk::DescriptorType as Type;
use vk::PipelineStageFlags as Stage;
use zinc_mock_driver::{Call, calls};

const CORRECT: [&str; 3] = ["alias-only", "narrow", "reorder"];

fn rig_with(policy: &str, more: &[(&str, &str)]) -> Rig {
    let settings = [&[("policy", policy)], more].concat();
    Rig::on(app_with(&settings, false), Type::STORAGE_BUFFER, Default::default())
}

fn pool(rig: &Rig) -> vk::QueryPool {
    let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(64);
    // SAFETY: here and below as in `mock`.
    unsafe { rig.app.device.create_query_pool(&info, None).unwrap() }
}

fn stamp(rig: &Rig, pool: vk::QueryPool, stage: Stage, query: u32) {
    // SAFETY: as above.
    unsafe { rig.app.device.cmd_write_timestamp(rig.commands, stage, pool, query) }
}

/// Dispatches, stamps and barriers as the driver gets them: numbers, `t` with a number, `B`.
fn words(rig: &Rig) -> Vec<String> {
    // SAFETY: as above.
    let calls = unsafe { calls(rig.commands) };
    let word = |call: &Call| match call {
        Call::Barrier { .. } => Some("B".to_string()),
        Call::Dispatch([x, ..]) => Some(x.to_string()),
        Call::Timestamp(query) => Some(format!("t{query}")),
        Call::Other(name @ ("vkCmdBeginQuery" | "vkCmdEndQuery" | "vkCmdResetQueryPool")) => {
            Some((*name).to_string())
        }
        _ => None,
    };
    calls.iter().filter_map(word).collect()
}

/// Records with everything that came before ordered against everything that follows, so that it needs nothing any more.
fn record(rig: &Rig, steps: impl FnOnce(&Rig)) {
    rig.app.begin(rig.commands);
    // SAFETY: as above.
    unsafe { rig.app.device.cmd_bind_pipeline(rig.commands, rig::COMPUTE, rig.pipeline) };
    let memory = vk::AccessFlags::MEMORY_WRITE | vk::AccessFlags::MEMORY_READ;
    rig.barrier((Stage::ALL_COMMANDS, memory), (Stage::ALL_COMMANDS, memory));
    rig.bind(rig.aside);
    rig.dispatch(9);
    steps(rig);
    rig.app.end(rig.commands);
}

fn count(words: &[String], what: &str) -> usize {
    words.iter().filter(|word| *word == what).count()
}

/// Records 16 dispatches with a barrier after each, and what `between` records after the barrier. Each dispatch reads what
/// the one before it wrote, or has nothing to do with it.
fn sixteen(policy: &str, chained: bool, between: impl Fn(&Rig, u32)) -> Vec<String> {
    let rig = rig_with(policy, &[]);
    let buffers: Vec<vk::Buffer> = (0..34).map(|_| rig.app.buffer(256)).collect();
    record(&rig, |rig| {
        for x in 0..16 {
            let at = x as usize;
            let touched =
                if chained { [buffers[at], buffers[at + 1]] } else { [buffers[2 * at], buffers[2 * at + 1]] };
            rig.go(100 + x, touched);
            rig.app.barrier(rig.commands);
            between(rig, x);
        }
    });
    words(&rig)
}

#[test]
fn a_timestamp_is_no_reason_to_emit_what_waits() {
    for policy in CORRECT {
        for stage in [Stage::TOP_OF_PIPE, Stage::COMPUTE_SHADER, Stage::BOTTOM_OF_PIPE, Stage::ALL_COMMANDS] {
            let stamps = |rig: &Rig, x| stamp(rig, pool(rig), stage, x);
            let without = count(&sixteen(policy, false, |_, _| {}), "B");
            let with = sixteen(policy, false, stamps);
            assert_eq!(count(&with, "B"), without, "{policy} {stage:?}: {with:?}");
            // Each keeps its place among the dispatches.
            let order: Vec<&String> = with.iter().filter(|word| word.len() > 1).collect();
            let expected: Vec<String> =
                (0..16).flat_map(|x| [(100 + x).to_string(), format!("t{x}")]).collect();
            assert_eq!(order, expected.iter().collect::<Vec<_>>(), "{policy} {stage:?}");
            // The control: where there is something to order, as many barriers stay as without stamps, one before each
            // dispatch but the first.
            let chain = sixteen(policy, true, stamps);
            assert!(count(&chain, "B") > 15, "{policy}: {chain:?}");
            for x in 1..16 {
                let at = |word: String| chain.iter().position(|w| *w == word).unwrap();
                let between = &chain[at((99 + x).to_string())..at((100 + x).to_string())];
                assert_eq!(count(between, "B"), 1, "{policy}: {chain:?}");
            }
        }
    }
}

/// What reaches the driver of: a fill, a dispatch, a barrier from `from` to `to`, a stamp at `stage`, a dispatch of other buffers.
fn around_a_stamp(policy: &str, from: Stage, to: Stage, stage: Stage) -> String {
    let rig = rig_with(policy, &[]);
    let pool = pool(&rig);
    let [a, b, c, d, e] = [(); 5].map(|()| rig.app.buffer(256));
    record(&rig, |rig| {
        // SAFETY: as above.
        unsafe { rig.app.device.cmd_fill_buffer(rig.commands, e, 0, 64, 0) };
        rig.go(1, [a, b]);
        let memory = vk::AccessFlags::MEMORY_WRITE | vk::AccessFlags::MEMORY_READ;
        rig.barrier((from, memory), (to, memory));
        stamp(rig, pool, stage, 7);
        rig.go(2, [c, d]);
    });
    let words = words(&rig);
    let from = words.iter().position(|word| word == "1").unwrap();
    let to = words.iter().position(|word| word == "2").unwrap();
    words[from..=to].join(" ")
}

#[test]
fn a_barrier_that_a_timestamp_waits_for_goes_out_before_it_and_no_other() {
    let (all, compute) = (Stage::ALL_COMMANDS, Stage::COMPUTE_SHADER);
    for policy in CORRECT {
        // The stamp does not wait by itself for what the barrier waits for.
        assert_eq!(around_a_stamp(policy, all, all, Stage::TOP_OF_PIPE), "1 B t7 2", "{policy}");
        assert_eq!(around_a_stamp(policy, all, all, compute), "1 B t7 2", "the fill: {policy}");
        // It does.
        assert_eq!(around_a_stamp(policy, all, all, Stage::BOTTOM_OF_PIPE), "1 t7 2", "{policy}");
        assert_eq!(around_a_stamp(policy, all, all, all), "1 t7 2", "{policy}");
        assert_eq!(around_a_stamp(policy, compute, all, compute), "1 t7 2", "{policy}");
        // It is in no second scope.
        assert_eq!(around_a_stamp(policy, all, compute, Stage::TOP_OF_PIPE), "1 t7 2", "{policy}");
    }
}

#[test]
fn what_lies_between_the_begin_and_the_end_of_a_query_stays_there() {
    for policy in CORRECT {
        let rig = rig_with(policy, &[]);
        let pool = pool(&rig);
        let buffers: Vec<vk::Buffer> = (0..8).map(|_| rig.app.buffer(256)).collect();
        record(&rig, |rig| {
            let device = &rig.app.device;
            rig.go(1, [buffers[0], buffers[1]]);
            rig.app.barrier(rig.commands);
            // SAFETY: as above.
            unsafe {
                device.cmd_reset_query_pool(rig.commands, pool, 0, 1);
                device.cmd_begin_query(rig.commands, pool, 0, vk::QueryControlFlags::empty());
            }
            rig.go(2, [buffers[1], buffers[2]]);
            rig.go(3, [buffers[4], buffers[5]]);
            // SAFETY: as above.
            unsafe { device.cmd_end_query(rig.commands, pool, 0) };
            rig.go(4, [buffers[6], buffers[7]]);
        });
        let words = words(&rig);
        let from = words.iter().position(|word| word == "1").unwrap();
        let expected = ["1", "vkCmdResetQueryPool", "vkCmdBeginQuery", "B", "2", "3", "vkCmdEndQuery", "4"];
        let all: Vec<&str> = words[from..].iter().map(String::as_str).take(expected.len()).collect();
        let without: Vec<&str> = all.iter().copied().filter(|word| *word != "B").collect();
        assert_eq!(
            without,
            expected.iter().copied().filter(|word| *word != "B").collect::<Vec<_>>(),
            "{policy}"
        );
        assert!(all.iter().position(|w| *w == "B") < all.iter().position(|w| *w == "2"), "{policy}: {all:?}");
    }
}

#[test]
fn a_copy_of_results_is_a_transfer_where_it_waits_and_unknown_where_it_does_not() {
    use vk::QueryResultFlags as Flags;
    for policy in CORRECT {
        // Whether a barrier comes between a copy into one buffer, and a dispatch that reads that, or another.
        let between = |flags: Flags, same: bool| {
            let rig = rig_with(policy, &[]);
            let pool = pool(&rig);
            let [a, b, c] = [(); 3].map(|()| rig.app.buffer(256));
            record(&rig, |rig| {
                // SAFETY: as above.
                unsafe {
                    rig.app.device.cmd_copy_query_pool_results(rig.commands, pool, 0, 2, a, 0, 8, flags);
                }
                let (read, write) = (vk::AccessFlags::SHADER_READ, vk::AccessFlags::TRANSFER_WRITE);
                rig.barrier((Stage::TRANSFER, write), (Stage::COMPUTE_SHADER, read));
                rig.go(5, [if same { a } else { b }, c]);
            });
            // SAFETY: as above.
            let calls = unsafe { calls(rig.commands) };
            let copy = calls.iter().position(|c| *c == Call::Other("vkCmdCopyQueryPoolResults")).unwrap();
            let dispatch = calls.iter().position(|c| *c == Call::Dispatch([5, 1, 1])).unwrap();
            calls[copy..dispatch].iter().any(|c| matches!(c, Call::Barrier { .. }))
        };
        assert_eq!((between(Flags::WAIT, true), between(Flags::WAIT, false)), (true, false), "{policy}");
        assert_eq!(
            (between(Flags::TYPE_64, true), between(Flags::TYPE_64, false)),
            (true, true),
            "{policy}: it may read what a stamp has not written yet"
        );
    }
}

/// The functions of labels.
struct Labels {
    begin: vk::PFN_vkCmdBeginDebugUtilsLabelEXT,
    insert: vk::PFN_vkCmdInsertDebugUtilsLabelEXT,
    end: vk::PFN_vkCmdEndDebugUtilsLabelEXT,
    begin_marker: vk::PFN_vkCmdDebugMarkerBeginEXT,
    end_marker: vk::PFN_vkCmdDebugMarkerEndEXT,
}

impl Labels {
    fn of(rig: &Rig) -> Labels {
        // SAFETY: names and types go together.
        unsafe {
            Labels {
                begin: rig.app.function(c"vkCmdBeginDebugUtilsLabelEXT"),
                insert: rig.app.function(c"vkCmdInsertDebugUtilsLabelEXT"),
                end: rig.app.function(c"vkCmdEndDebugUtilsLabelEXT"),
                begin_marker: rig.app.function(c"vkCmdDebugMarkerBeginEXT"),
                end_marker: rig.app.function(c"vkCmdDebugMarkerEndEXT"),
            }
        }
    }

    fn begin(&self, rig: &Rig, name: u8) {
        // The name is gone after the call.
        let bytes = [name, 0];
        let label = vk::DebugUtilsLabelEXT::default().label_name(CStr::from_bytes_with_nul(&bytes).unwrap());
        // SAFETY: as above.
        unsafe { (self.begin)(rig.commands, &raw const label) }
    }

    fn insert(&self, rig: &Rig, name: u8) {
        let bytes = [name, 0];
        let label = vk::DebugUtilsLabelEXT::default().label_name(CStr::from_bytes_with_nul(&bytes).unwrap());
        // SAFETY: as above.
        unsafe { (self.insert)(rig.commands, &raw const label) }
    }

    fn end(&self, rig: &Rig) {
        // SAFETY: as above.
        unsafe { (self.end)(rig.commands) }
    }
}

/// The regions around each dispatch, by its number, and those that are open at the end.
fn regions(calls: &[Call]) -> (Vec<(u32, Vec<u8>)>, Vec<u8>) {
    let (mut open, mut around) = (Vec::new(), Vec::new());
    for call in calls {
        match call {
            Call::BeginLabel(name) => open.push(*name),
            Call::EndLabel => _ = open.pop().expect("no region ends that was not begun"),
            Call::Dispatch([x, ..]) if *x >= 100 => around.push((*x, open.clone())),
            _ => {}
        }
    }
    around.sort_unstable();
    (around, open)
}

#[test]
fn every_dispatch_is_issued_in_the_regions_that_it_was_recorded_in() {
    for (policy, shuffle) in [
        ("stock", "off"),
        ("alias-only", "off"),
        ("alias-only", "reverse"),
        ("narrow", "off"),
        ("narrow", "3"),
        ("reorder", "off"),
        ("reorder", "reverse"),
    ] {
        let mut moved = false;
        for seed in 0..40 {
            let rig = rig_with(policy, &[("shuffle", shuffle)]);
            let labels = Labels::of(&rig);
            let buffers: Vec<vk::Buffer> = (0..6).map(|_| rig.app.buffer(256)).collect();
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut open, mut expected) = (Vec::new(), Vec::new());
            record(&rig, |rig| {
                for x in 100..140 {
                    match random.u8(..7) {
                        0 => {
                            let name = random.u8(b'a'..=b'z');
                            labels.begin(rig, name);
                            open.push(name);
                        }
                        1 if open.pop().is_some() => labels.end(rig),
                        2 => labels.insert(rig, b'!'),
                        3 => rig.app.barrier(rig.commands),
                        4 if random.u8(..8) == 0 => {
                            // A command without a model.
                            // SAFETY: as above.
                            unsafe {
                                rig.app.device.cmd_set_event(
                                    rig.commands,
                                    vk::Event::null(),
                                    Stage::ALL_COMMANDS,
                                )
                            }
                        }
                        _ => {
                            rig.go(
                                x,
                                [
                                    random.choice(&buffers).copied().unwrap(),
                                    random.choice(&buffers).copied().unwrap(),
                                ],
                            );
                            expected.push((x, open.clone()));
                        }
                    }
                }
            });
            // SAFETY: as above.
            let calls = unsafe { calls(rig.commands) };
            assert_eq!(regions(&calls), (expected.clone(), open), "{policy}, shuffle {shuffle}, seed {seed}");
            let order = calls.iter().filter_map(|c| match c {
                Call::Dispatch([x, ..]) if *x >= 100 => Some(*x),
                _ => None,
            });
            moved |= !order.eq(expected.iter().map(|(x, _)| *x));
        }
        assert_eq!(
            moved,
            policy == "reorder" || shuffle != "off",
            "{policy}, shuffle {shuffle}: or nothing was tried"
        );
    }
}

#[test]
fn a_region_without_operations_and_what_is_inserted_keep_their_places_in_recorded_order() {
    let rig = rig_with("narrow", &[]);
    let labels = Labels::of(&rig);
    let [a, b] = [(); 2].map(|()| rig.app.buffer(256));
    record(&rig, |rig| {
        labels.begin(rig, b'o');
        rig.go(100, [a, b]);
        labels.begin(rig, b'e');
        labels.end(rig);
        labels.insert(rig, b'i');
        rig.go(101, [a, b]);
        labels.end(rig);
        labels.insert(rig, b'j');
    });
    // SAFETY: as above.
    let calls = unsafe { calls(rig.commands) };
    let seen: Vec<Call> = calls
        .into_iter()
        .filter(|c| {
            matches!(
                c,
                Call::BeginLabel(_) | Call::InsertLabel(_) | Call::EndLabel | Call::Dispatch([100 | 101, ..])
            )
        })
        .collect();
    let (begin, insert, end, go) =
        (Call::BeginLabel, Call::InsertLabel, Call::EndLabel, |x| Call::Dispatch([x, 1, 1]));
    assert_eq!(seen, [begin(b'o'), go(100), begin(b'e'), end, insert(b'i'), go(101), end, insert(b'j')]);
}

#[test]
fn a_region_of_an_earlier_command_buffer_ends_after_what_it_encloses() {
    for policy in ["narrow", "reorder"] {
        let rig = rig_with(policy, &[]);
        let labels = Labels::of(&rig);
        let [a, b, c, d] = [(); 4].map(|()| rig.app.buffer(256));
        record(&rig, |rig| {
            rig.go(100, [a, b]);
            labels.end(rig);
            rig.go(101, [c, d]);
        });
        // SAFETY: as above.
        let calls = unsafe { calls(rig.commands) };
        let at = |call| calls.iter().position(|c| *c == call).unwrap();
        let (first, end, second) =
            (at(Call::Dispatch([100, 1, 1])), at(Call::EndLabel), at(Call::Dispatch([101, 1, 1])));
        assert!(first < end && end < second, "{policy}: {calls:?}");
    }
}

#[test]
fn markers_of_the_older_extension_move_too() {
    let rig = rig_with("reorder", &[]);
    let labels = Labels::of(&rig);
    let [a, b, c, d] = [(); 4].map(|()| rig.app.buffer(256));
    record(&rig, |rig| {
        rig.go(100, [a, b]);
        let info = vk::DebugMarkerMarkerInfoEXT::default().marker_name(c"m");
        // SAFETY: as above.
        unsafe { (labels.begin_marker)(rig.commands, &raw const info) };
        rig.go(101, [c, d]);
        // SAFETY: as above.
        unsafe { (labels.end_marker)(rig.commands) };
        rig.go(102, [b, a]);
    });
    // SAFETY: as above.
    let calls = unsafe { calls(rig.commands) };
    assert_eq!(regions(&calls), (vec![(100, vec![]), (101, vec![b'm']), (102, vec![])], vec![]));
}
