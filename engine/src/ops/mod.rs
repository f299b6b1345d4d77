//! `engine ops`: every kernel, alone, against the CPU reference.
//!
//! A case is one dispatch of one kernel on a ragged shape. Its inputs are random but fixed by a seed; its expected
//! outputs come from plain code in double precision; its tolerance is derived from the precision that Vulkan promises
//! for each operation and from the number of roundings in the kernel's own order of summation, not from what some
//! device happened to give.
//!
//! Beside the values, the harness checks what was *not* to be written. The output buffer and a guard behind it are
//! filled with a pattern, and every element that the kernel has no business with must still hold it.
//!
//! Each kernel has a control: the same case with one input changed on the device only. A comparison that does not
//! notice is no comparison, and the command fails.

mod attention;
mod batch;
mod cases;
mod chain;
mod fused;
mod matrices;
mod prompt;
mod variants;

use std::rc::Rc;

use zinc_shaders::{Capability, Kernel};

use crate::decode;
use crate::plan::{
    Arena, CoopAttention, Cooperative, Dispatch, Plan, Shapes, Space, Span, Step, Tuning, Work,
};
use crate::results::{self, OpsCase};
use crate::vk::{Device, Levers, Program, Record, Uploader};

/// What fills output buffers before a kernel runs: a quiet NaN that no kernel computes.
const UNTOUCHED: u32 = 0x7fc0_dead;
/// Floats behind each output that must stay as they are.
const GUARD: u64 = 64;

/// One dispatch with inputs, expected outputs and tolerances.
pub(crate) struct Case {
    dispatch: Dispatch<Input>,
    /// `name=value` pairs for people.
    label: String,
    /// The right value of each output element; `None` where it must not be written.
    expected: Vec<Option<Expected>>,
    /// What the control XORs the first push constant with, where it changes no input.
    push_flip: u32,
}

/// What is bound in a case.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Input {
    /// The step buffer: position and token, or a batch's first position, number of tokens, and tokens.
    Step(Vec<u32>),
    /// Bytes that are there before, and the byte of which the control changes the top bit.
    Bytes(Vec<u8>, Option<usize>),
    /// The buffer that is compared.
    Result,
}

impl Input {
    /// The same with this byte for the control to change: the one with a float's sign, or any other.
    fn flipped(self, at: usize) -> Self {
        match self {
            Self::Bytes(bytes, _) => Self::Bytes(bytes, Some(at)),
            other => other,
        }
    }
}

/// Numbers as a kernel reads them.
fn input<T: bytemuck::NoUninit>(values: &[T]) -> Input {
    Input::Bytes(bytemuck::cast_slice(values).to_vec(), None)
}

impl Case {
    fn new(label: String, dispatch: Dispatch<Input>, expected: Vec<Option<Expected>>) -> Self {
        Self { dispatch, label, expected, push_flip: 0 }
    }

    fn kernel(&self) -> &'static Kernel {
        self.dispatch.call.kernel
    }
}

/// What is right.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    /// A float and how far from it is still right.
    Near {
        /// The float.
        value: f64,
        /// How far.
        tolerance: f64,
    },
    /// These bits.
    Bits(u32),
}

impl Expected {
    /// The bits of a result that is right.
    fn bits(self) -> u32 {
        match self {
            Self::Near { value, .. } => (value as f32).to_bits(),
            Self::Bits(bits) => bits,
        }
    }
}

/// What a comparison found.
struct Verdict {
    worst: f64,
    detail: Option<String>,
}

/// The cases of a device.
pub struct Cases(Vec<Case>);

impl Cases {
    /// Their number.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Runs the cases, and the control of each kernel; `each` is called after each case.
pub fn run(
    device: &Rc<Device>,
    cases: &Cases,
    mut each: impl FnMut(&OpsCase),
) -> Result<results::Ops, decode::Error> {
    let mut done = Vec::with_capacity(cases.count());
    let (mut controls, mut controls_caught) = (0, 0);
    let mut last_kernel = "";
    for case in &cases.0 {
        let verdict = check(device, case, false)?;
        let result = OpsCase {
            kernel: case.kernel().name.to_owned(),
            shape: case.label.clone(),
            passed: verdict.detail.is_none(),
            worst: verdict.worst,
            detail: verdict.detail,
        };
        each(&result);
        done.push(result);
        if case.kernel().name != last_kernel {
            last_kernel = case.kernel().name;
            controls += 1;
            controls_caught += u64::from(check(device, case, true)?.detail.is_some());
        }
    }
    let passed = done.iter().filter(|case| case.passed).count() as u64;
    Ok(results::Ops {
        schema: results::SCHEMA,
        command: "ops".to_owned(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
        device: device.describe().clone(),
        passed,
        total: done.len() as u64,
        controls_caught,
        controls,
        cases: done,
    })
}

/// The place of each slot of a block, in which attention on cooperative matrices keeps its cache; or what the device does that it
/// can't have, for heads of this size of which `group` share a key: it deals a matrix out otherwise, or fails the check of a
/// case of [`run`], on a context of three tiles.
pub(crate) fn attention_order(
    device: &Rc<Device>,
    tuning: &Tuning,
    (group, head_dim): (u32, u32),
    coop: &CoopAttention,
) -> Result<Result<Vec<u32>, String>, decode::Error> {
    let Some(places) = attention::places(device, coop.fragment)? else {
        return Ok(Err("deals a matrix out in a way of its own".to_owned()));
    };
    let case = attention::probe(tuning, &device.limits(), (group, head_dim), &places, coop);
    let wrong = check(device, &case, false)?.detail;
    Ok(wrong.map_or(Ok(places), |wrong| Err(format!("computes something else: {wrong}"))))
}

/// The cases of the kernels that are `wanted`, by name, with these workgroup shapes.
pub fn cases(
    device: &Rc<Device>,
    tuning: &Tuning,
    wanted: impl Fn(&str) -> bool,
) -> Result<Cases, decode::Error> {
    let cooperative = device.cooperative();
    let places = match cooperative {
        Cooperative::Has(Shapes { attention: Some(fragment), .. }) => attention::places(device, fragment)?,
        _ => None,
    };
    let mut cases = cases::all(tuning, &device.limits(), cooperative, places);
    if !device.features().dot {
        // Their twins without the device's dot product are there.
        cases.retain(|case| !case.kernel().capabilities.contains(&Capability::DotProduct));
    }
    cases.retain(|case| wanted(case.kernel().name));
    Ok(Cases(cases))
}

fn check(device: &Rc<Device>, case: &Case, control: bool) -> Result<Verdict, decode::Error> {
    let output = execute(device, case, control)?;
    Ok(compare(case, &output))
}

fn compare(case: &Case, output: &[u32]) -> Verdict {
    let mut verdict = Verdict { worst: 0.0, detail: None };
    let complain = |verdict: &mut Verdict, text: String| {
        verdict.detail.get_or_insert(text);
    };
    let guard = std::iter::repeat_n(&None, output.len() - case.expected.len());
    for (i, (expected, bits)) in case.expected.iter().chain(guard).zip(output).enumerate() {
        let got = f64::from(f32::from_bits(*bits));
        match expected {
            None if *bits != UNTOUCHED => {
                complain(&mut verdict, format!("element {i} was written ({got:e}) and should not be"));
            }
            None => {}
            Some(_) if *bits == UNTOUCHED => complain(&mut verdict, format!("element {i} was not written")),
            Some(Expected::Bits(right)) if bits == right => {}
            Some(Expected::Bits(right)) => {
                verdict.worst = f64::MAX;
                complain(&mut verdict, format!("element {i} is {bits:#x}, expected {right:#x}"));
            }
            Some(Expected::Near { value, tolerance }) => {
                // Near the smallest normal number a device may give zero, and so may a product with such a number.
                let off = (got - value).abs();
                let ratio = if off <= 8.0 * f64::from(f32::MIN_POSITIVE) {
                    0.0
                } else {
                    (off / tolerance).min(f64::MAX)
                };
                // A NaN is beyond every tolerance; results cannot hold it, so it counts as the largest number.
                let ratio = if ratio.is_nan() { f64::MAX } else { ratio };
                verdict.worst = verdict.worst.max(ratio);
                if ratio > 1.0 {
                    let text = format!("element {i} is {got:e}, expected {value:e} within {tolerance:e}");
                    complain(&mut verdict, text);
                }
            }
        }
    }
    verdict
}

/// Runs the case's dispatch and returns the bits of its output and the guard behind it.
fn execute(device: &Rc<Device>, case: &Case, control: bool) -> Result<Vec<u32>, decode::Error> {
    let limits = device.limits();
    let mut arena = Arena::new(Space::Arena, &limits);
    let outputs = 4 * case.expected.len() as u64;
    // Where the host reads: what a check says must not depend on a barrier that a layer may drop.
    let output = Span { space: Space::Tokens, offset: 0, bytes: outputs + 4 * GUARD };
    let (mut step, mut contents) = (vec![0, 0], Vec::new());
    let Dispatch { call, grid, reach, waits } = case.dispatch.clone();
    let mut call = call.map(|input| match input {
        Input::Step(words) => {
            step = words;
            Span { space: Space::Step, offset: 0, bytes: 4 * step.len() as u64 }
        }
        Input::Bytes(mut bytes, flip) => {
            if let Some(at) = flip.filter(|_| control) {
                bytes[at] ^= 0x80;
            }
            let span = arena.take(bytes.len() as u64);
            contents.push((span, bytes));
            span
        }
        Input::Result => Span { bytes: outputs, ..output },
    });
    if control {
        call.push[0] ^= case.push_flip;
    }
    let dispatch = Dispatch { call, grid, reach, waits };
    let plan = Plan {
        steps: vec![Step { layer: None, name: case.kernel().name, work: Work::Dispatch(dispatch) }],
        buffers: vec![
            (Space::Step, 4 * step.len() as u64),
            (Space::Arena, arena.bytes().max(4)),
            (Space::Tokens, output.bytes),
        ],
        uploads: Vec::new(),
        failed: None,
    };
    let mut program = Program::new(device, plan, &[], Levers { record: Record::Each, ..Levers::default() })?;
    let mut uploader = Uploader::new(device, arena.bytes().max(output.bytes))?;
    for (span, bytes) in contents {
        uploader.upload(program.buffer(Space::Arena), span.offset, &bytes)?;
    }
    let filler = vec![UNTOUCHED; output.bytes as usize / 4];
    uploader.upload(program.buffer(Space::Tokens), output.offset, bytemuck::cast_slice(&filler))?;
    program.set_step(0, &step);
    program.submit(u32::MAX >> 1, 1, true)?;
    program.wait()?;
    let mut words = vec![0u32; output.bytes as usize / 4];
    program.read(Space::Tokens, 0, 0, bytemuck::cast_slice_mut(&mut words));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Fragment, Limits};

    /// The cases of a device with small limits and cooperative matrices.
    fn all(tuning: Tuning) -> Vec<Case> {
        let limits = Limits { alignment: 64, workgroup: 256, ..Limits::TYPICAL };
        let fragment = Fragment { m: 16, n: 16, k: 16, subgroup: 32 };
        let narrow = Fragment { n: 8, ..fragment };
        let shapes = Shapes { product: fragment, attention: Some(narrow) };
        cases::all(&tuning, &limits, Cooperative::Has(shapes), Some((0..256).collect()))
    }

    fn case() -> Case {
        all(Tuning::CPU).into_iter().find(|case| case.kernel().name == "scores").unwrap()
    }

    fn right_output(case: &Case) -> Vec<u32> {
        let bits = |e: &Option<Expected>| e.map_or(UNTOUCHED, Expected::bits);
        case.expected.iter().map(bits).chain([UNTOUCHED; 4]).collect()
    }

    #[test]
    fn the_comparison_accepts_the_right_output_and_nothing_else() {
        let case = case();
        let right = right_output(&case);
        assert!(compare(&case, &right).detail.is_none());
        for (at, wrong) in
            [(0, 1e3f32.to_bits()), (0, f32::NAN.to_bits()), (0, UNTOUCHED), (right.len() - 1, 0)]
        {
            let mut output = right.clone();
            output[at] = wrong;
            let verdict = compare(&case, &output);
            assert!(verdict.detail.is_some() && verdict.worst.is_finite(), "{at} {wrong:#x}");
        }
    }

    #[test]
    fn every_kernel_has_cases() {
        let cases = all(Tuning::GPU);
        for kernel in zinc_shaders::KERNELS {
            // These have several outputs, or none, or say what the others build upon; sessions compute with them.
            let whole = ["persistent", "best", "advance", "nothing", "coop_places"]
                .iter()
                .any(|n| kernel.name.starts_with(n));
            let checked = cases.iter().any(|case| *case.kernel() == *kernel);
            assert!(checked != whole, "{} is never checked", kernel.name);
        }
    }
}
