//! Random shaders, and the controls: an analysis with a fault is caught by them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Command;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use zinc_reflect::{Dispatch, Fault, Footprint, Specialization};

use crate::generate::{ADDRESSES, Choices, REACH, WORDS, division, shader};
use crate::{arena, escapes, footprint, seen, tools};

fn compile(text: &str, optimise: bool) -> Vec<u32> {
    let mut file = tempfile::Builder::new().suffix(".comp").tempfile().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("the temporary file can be written");
    let words = tools::compile(file.path(), "vulkan1.2");
    if !optimise {
        return words;
    }
    let (from, to) =
        (tempfile::NamedTempFile::new().expect("a file"), tempfile::NamedTempFile::new().expect("a file"));
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(from.path(), bytes).expect("the temporary file can be written");
    let status = Command::new("spirv-opt").arg("-O").arg(from.path()).arg("-o").arg(to.path()).status();
    assert!(status.expect("spirv-opt runs: install spirv-tools").success());
    let bytes = std::fs::read(to.path()).expect("spirv-opt's output can be read");
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// One generated shader with its dispatches: everything that one case decides.
struct Case {
    text: String,
    words: Vec<u32>,
    specialization: Specialization,
    dispatches: Vec<([u8; PUSHED], [u32; 3])>,
}

/// Bytes of push constants.
const PUSHED: usize = 40;

/// The buffers that addresses lead into.
fn buffers() -> [(u64, u64); 2] {
    let first = arena();
    [(first, first + REACH), (first + REACH, first + 2 * REACH)]
}

fn case(choices: &[u16], addresses: bool) -> Case {
    let mut choices = Choices::new(choices);
    let optimise = choices.next(2) == 1;
    let specialization: Specialization = [(3, choices.next(30) as u64)].into_iter().collect();
    let dispatches = (0..2)
        .map(|_| {
            let (magic, shift) = division(1 + choices.next(300) as u32);
            let mut push = [0; PUSHED];
            let values = [0, 1, 2, 3].map(|_| [3u32, 17, 100, 256, 1000, 0][choices.next(6)]);
            for (bytes, value) in push.chunks_mut(4).zip(values.into_iter().chain([magic, shift])) {
                bytes.copy_from_slice(&value.to_le_bytes());
            }
            for (at, (address, _)) in ADDRESSES.into_iter().zip(buffers()) {
                push[at..at + 8].copy_from_slice(&address.to_le_bytes());
            }
            (push, [1 + choices.next(5) as u32, 1 + choices.next(3) as u32, 1])
        })
        .collect();
    let text = shader(&mut choices, addresses);
    Case { words: compile(&text, optimise), text, specialization, dispatches }
}

impl Case {
    /// What leaves the extents that `footprint` gives, over all dispatches; and how many extents are tight.
    fn escapes(&self, footprint: &Footprint) -> Vec<String> {
        let sizes: BTreeMap<(u32, u32), u64> =
            [(0, 0), (0, 1), (1, 2), (1, 3)].map(|place| (place, WORDS * 4)).into_iter().collect();
        let mut found = Vec::new();
        for (push, groups) in &self.dispatches {
            let dispatch = Dispatch { push_constants: push, groups: *groups, base: [0; 3] };
            let seen = seen(&self.words, &self.specialization, &dispatch, &sizes, |index| {
                (index as u32).wrapping_mul(7)
            });
            found.extend(escapes(&seen, &footprint.evaluate(&dispatch), &dispatch, &buffers()));
        }
        found
    }
}

fn choices() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), 200..600)
}

fn none_escapes(cases: u32, addresses: bool) {
    let config = Config { cases, max_shrink_iters: 40, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&choices(), |choices| {
            let case = case(&choices, addresses);
            let found = case.escapes(&footprint(&case.words, &case.specialization));
            prop_assert!(found.is_empty(), "{found:?}\n{:?}\n{}", case.dispatches, case.text);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn no_access_of_a_generated_shader_leaves_its_extent() {
    none_escapes(24, false);
}

#[test]
fn no_access_of_a_generated_shader_by_an_address_leaves_where_the_address_leads() {
    none_escapes(24, true);
}

/// Whether a fault is noticed in one of many shaders, by an escape of which `counts` holds.
fn caught(fault: Fault, addresses: bool, counts: impl Fn(&str) -> bool) -> bool {
    let mut runner = TestRunner::deterministic();
    (0..80).any(|_| {
        let choices = choices().new_tree(&mut runner).expect("a case").current();
        let case = case(&choices, addresses);
        let found = case.escapes(&footprint(&case.words, &case.specialization).with_fault(fault));
        found.iter().any(|escape| counts(escape))
    })
}

#[test]
fn an_analysis_with_a_fault_is_caught() {
    for fault in [Fault::LoopsEndEarly, Fault::StrictIsStricter, Fault::RestsAreSmaller] {
        assert!(caught(fault, false, |_| true), "nothing notices {fault:?}");
    }
}

#[test]
fn an_analysis_with_a_fault_is_caught_by_what_is_reached_by_address_alone() {
    for fault in [Fault::LoopsEndEarly, Fault::StrictIsStricter, Fault::RestsAreSmaller] {
        assert!(caught(fault, true, |escape| escape.starts_with("Pointer")), "nothing notices {fault:?}");
    }
}
