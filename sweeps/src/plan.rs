//! Which runs a sweep makes, and why each of them is needed.
//!
//! An arm that gives the right numbers proves little by itself. A CPU device executes in order and forgives every
//! missing barrier; a GPU forgives most of them most of the time. So for each policy that claims to be correct there
//! are four kinds of runs beside the timed one:
//!
//! - **shuffled**: the operations in permuted orders wherever the emitted barriers leave the order free. Were a
//!   needed barrier missing, some of these orders would give other numbers. Reversal moves every free pair; a seed
//!   moves half of the adjacent ones, so there are several.
//! - **without the layer**: that the layer under `stock` changes nothing.
//! - **control**: `none`, reversed. It *must* give other numbers; if it doesn't, the shuffled runs prove nothing.
//! - **drops**: the policy with one barrier withheld. The share that is noticed says how sharp the gates are: a
//!   control shows that they notice the absence of everything, drops that they notice the absence of one.
//!
//! `stock` itself is reversed once too: if that gives other numbers, the application lacks a barrier and no policy is
//! to blame.
//!
//! And before all of these, a run of a few tokens for each policy, so that what the engine does to load a model is not
//! counted as part of a token.
//!
//! On a driver that records without executing there are no numbers, so nothing of this could show anything: there the
//! runs are those without the layer, the set-up runs and the timed ones ([`recorded_runs`]), whose counts are what is asked
//! for and whose repetitions are of the CPU's time.
//!
//! Drops are tried only on policies that emit what they must and no more. Under `stock` and `every` a neighbour covers
//! for the dropped barrier, and a drop that is not noticed says nothing about a gate.

use std::fmt;

use zinc_hazard::Policy;
pub use zinc_settings::Shuffle;

use crate::gate::Probe;

/// How many seeded permutations a correct policy is run under, beside the reversal.
pub const SEEDED_SHUFFLES: u64 = 3;

/// Tokens of a set-up run: the shortest chunk that the engine takes.
pub const SETUP_TOKENS: u64 = 5;

/// Why a run is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The engine alone, no layer in its process.
    WithoutLayer,
    /// A run of [`SETUP_TOKENS`] tokens, whose counts are taken off those of the policy's other runs: what the engine
    /// submits to load a model is no part of a token.
    Setup,
    /// On a driver that records without executing: the arm with the packet counter in its process, for what stands in
    /// the driver's own command stream.
    Packets,
    /// An application in the engine's place, with [`SETUP_TOKENS`] tokens: its time is taken off that of the timed run
    /// beside it, so that what is left is that of tokens.
    Short,
    /// An arm as users would run it: timed, the application's own order. `stock` here is the reference.
    Timed,
    /// Another program than the one that is swept, for its gate's sake, in the application's own order. `stock` here is
    /// that program's reference.
    InOrder,
    /// A policy on another program, with the reasons of its barriers traced: the drops are drawn from those that a pair
    /// within one recording forces.
    Traced,
    /// A correct policy under a permuted order.
    Shuffled,
    /// One of many repetitions, in order, to see how often something goes wrong.
    Soak,
    /// Wrong on purpose: must be noticed.
    Control,
    /// One barrier withheld on purpose: should be noticed.
    Drop,
}

/// One run of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunSpec {
    /// Why it is made.
    pub role: Role,
    /// The layer's policy; `None` leaves the layer out.
    pub policy: Option<Policy>,
    /// The layer's order of operations.
    pub shuffle: Shuffle,
    /// The emitted barrier to withhold, counted from 0 in each submission sequence.
    pub mutate: Option<u64>,
    /// Which repetition of a timed arm this is, from 0.
    pub round: u32,
    /// Which setting of the owner's variables is in force: an index into the target's settings, where 0 sets nothing.
    pub knob: u16,
    /// The program that is started.
    pub probe: Probe,
}

impl RunSpec {
    /// The run in words, with the values of its setting in place of its number among `settings`.
    pub fn words(&self, settings: &[Vec<(String, String)>]) -> String {
        let values = settings.get(usize::from(self.knob)).into_iter().flatten();
        let values: Vec<String> = values.map(|(name, value)| format!("{name}={value}")).collect();
        self.with_setting(&values.join(" "))
    }

    /// The run in words, with those for its setting; empty where nothing is set.
    fn with_setting(&self, setting: &str) -> String {
        let mut parts = vec![self.policy.map_or("without the layer".into(), |policy| policy.to_string())];
        if self.shuffle != Shuffle::Off {
            parts.push(format!("shuffle {}", self.shuffle));
        }
        parts.extend(self.mutate.map(|k| format!("without barrier {k}")));
        parts.extend((!setting.is_empty()).then(|| setting.into()));
        if self.probe != Probe::Main {
            parts.push(self.probe.name().to_string());
        }
        let role = match self.role {
            Role::Control => " (control)".into(),
            Role::Setup => " (set-up)".into(),
            Role::Packets => " (packets)".into(),
            Role::Short => " (short)".into(),
            Role::Soak => format!(" (soak {})", self.round + 1),
            Role::Traced => " (traced)".into(),
            Role::WithoutLayer | Role::Timed | Role::InOrder | Role::Shuffled | Role::Drop => String::new(),
        };
        parts.join(", ") + &role
    }

    /// The engine alone.
    pub const WITHOUT_LAYER: RunSpec = RunSpec {
        role: Role::WithoutLayer,
        policy: None,
        shuffle: Shuffle::Off,
        mutate: None,
        round: 0,
        knob: 0,
        probe: Probe::Main,
    };

    /// The run by which an application's device is found out.
    pub const FIRST: RunSpec =
        RunSpec { role: Role::Setup, policy: Some(Policy::Stock), ..RunSpec::WITHOUT_LAYER };

    fn new(role: Role, policy: Policy, shuffle: Shuffle) -> RunSpec {
        RunSpec { role, policy: Some(policy), shuffle, mutate: None, round: 0, knob: 0, probe: Probe::Main }
    }

    /// A run of the policy with barrier `k` withheld.
    pub fn dropping(policy: Policy, k: u64, shuffle: Shuffle) -> RunSpec {
        RunSpec { mutate: Some(k), ..RunSpec::new(Role::Drop, policy, shuffle) }
    }

    /// The `n`-th repetition of the policy, counted from 0.
    pub fn soaking(policy: Policy, n: u32) -> RunSpec {
        RunSpec { round: n, ..RunSpec::new(Role::Soak, policy, Shuffle::Off) }
    }

    /// The policy on `probe`'s program, with the reasons of its barriers.
    pub fn traced(policy: Policy, probe: Probe) -> RunSpec {
        RunSpec { probe, ..RunSpec::new(Role::Traced, policy, Shuffle::Off) }
    }

    /// The repetition without barriers and reversed, whose records must be bad.
    pub fn soaking_control() -> RunSpec {
        RunSpec::new(Role::Soak, Policy::None, Shuffle::Reverse)
    }

    /// Whether the packet counter is to be in the process, on a driver where it can be: in the runs that are counted
    /// and not timed.
    pub fn counts_packets(&self) -> bool {
        matches!(self.role, Role::Setup | Role::Packets)
    }

    /// Whether this is a run of the reference: `stock`, timed, with nothing set.
    pub fn is_reference(&self) -> bool {
        self.is_reference_of(Probe::Main)
    }

    /// Whether this is a run of what `probe`'s gates compare with: `stock`, in order, with nothing set.
    pub fn is_reference_of(&self, probe: Probe) -> bool {
        let in_order = matches!(self.role, Role::Timed | Role::InOrder);
        in_order && (self.policy, self.knob, self.probe) == (Some(Policy::Stock), 0, probe)
    }

    /// Whether both are of one policy under one setting.
    pub fn same_side(&self, other: &RunSpec) -> bool {
        (self.policy, self.knob) == (other.policy, other.knob)
    }

    /// Whether both are repetitions of the same arm.
    pub fn same_arm(&self, other: &RunSpec) -> bool {
        RunSpec { round: 0, ..*self } == RunSpec { round: 0, ..*other }
    }
}

impl fmt::Display for RunSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setting = if self.knob == 0 { String::new() } else { format!("setting {}", self.knob) };
        f.write_str(&self.with_setting(&setting))
    }
}

/// Whether single drops say something about the gates under this policy.
pub fn takes_drops(policy: Policy) -> bool {
    match policy {
        Policy::AliasOnly | Policy::Narrow | Policy::Reorder => true,
        Policy::Stock | Policy::Every | Policy::None => false,
    }
}

/// The runs that are known before the first one is made, in order: the engine alone (which also warms caches), the
/// set-up runs, the timed arms round by round, the shuffled ones, the control.
///
/// `policies` are the arms beside `stock`.
///
/// `settings` are those of the owner's variables beside none: each is crossed with `stock` and all policies. A setting
/// gets a reversed run for each correct policy; control and drops speak for the gates, whatever is set.
pub fn fixed_runs(policies: &[Policy], settings: u16, reps: u32, seed: u64) -> Vec<RunSpec> {
    let control = (!policies.contains(&Policy::None)).then_some(Policy::None);
    let mut runs = timed_runs(policies, settings, control, reps);
    runs.push(RunSpec::new(Role::Shuffled, Policy::Stock, Shuffle::Reverse));
    for policy in policies.iter().copied().filter(|p| p.is_correct()) {
        runs.push(RunSpec::new(Role::Shuffled, policy, Shuffle::Reverse));
        runs.extend(seeds(seed).map(|s| RunSpec::new(Role::Shuffled, policy, Shuffle::Seed(s))));
    }
    for knob in 1..=settings {
        let correct =
            std::iter::once(Policy::Stock).chain(policies.iter().copied().filter(|p| p.is_correct()));
        runs.extend(correct.map(|p| RunSpec { knob, ..RunSpec::new(Role::Shuffled, p, Shuffle::Reverse) }));
    }
    runs.push(RunSpec::new(Role::Control, Policy::None, Shuffle::Reverse));
    runs
}

/// The runs of a gate's own program under the policies beside `stock`, with nothing set and under each setting: in
/// order, and, where order shows anything, reversed and under one seed; then the control.
pub fn probe_runs(probe: Probe, policies: &[Policy], settings: u16, seed: u64) -> Vec<RunSpec> {
    let correct =
        || std::iter::once(Policy::Stock).chain(policies.iter().copied().filter(|p| p.is_correct()));
    let run = |role, policy, shuffle, knob| RunSpec { probe, knob, ..RunSpec::new(role, policy, shuffle) };
    let settings = if probe.sees_settings() { settings } else { 0 };
    let mut runs = Vec::new();
    for knob in 0..=settings {
        runs.extend(correct().map(|p| run(Role::InOrder, p, Shuffle::Off, knob)));
        if probe.sees_order() {
            runs.extend(correct().map(|p| run(Role::Shuffled, p, Shuffle::Reverse, knob)));
        }
        if probe.sees_order() && knob == 0 {
            let seeded = correct().filter(|p| *p != Policy::Stock);
            runs.extend(seeded.map(|p| run(Role::Shuffled, p, Shuffle::Seed(seed), knob)));
        }
    }
    let order = if probe.sees_order() { Shuffle::Reverse } else { Shuffle::Off };
    runs.push(run(Role::Control, Policy::None, order, 0));
    runs
}

/// The runs on a driver that records without executing, in order: without the layer, the set-up runs, all arms round by
/// round, and with `packets` each arm once more for the packet counter. `policies` are the arms beside `stock`. The engine
/// times its tokens itself; of an `application` nothing is known but how long its process takes, so each timed run gets
/// a short one beside it.
pub fn recorded_runs(
    policies: &[Policy],
    settings: u16,
    reps: u32,
    packets: bool,
    application: bool,
) -> Vec<RunSpec> {
    let layered: Vec<Policy> = std::iter::once(Policy::Stock).chain(policies.iter().copied()).collect();
    let arms: Vec<(Option<Policy>, u16)> = std::iter::once((None, 0))
        .chain((0..=settings).flat_map(|knob| layered.iter().map(move |p| (Some(*p), knob))))
        .collect();
    let run = |role, (policy, knob), round| RunSpec { role, policy, round, knob, ..RunSpec::WITHOUT_LAYER };
    // The first run of all finds caches cold. The engine's tokens don't notice, an application's process does.
    let mut runs = if application { vec![] } else { vec![RunSpec::WITHOUT_LAYER] };
    let set_up = arms.iter().filter(|arm| application || packets || arm.0.is_some());
    runs.extend(set_up.map(|arm| run(Role::Setup, *arm, 0)));
    for round in 0..reps {
        let mut order = arms.clone();
        if round % 2 == 1 {
            order.reverse();
        }
        for arm in order {
            match arm.0 {
                // Made before the set-up runs.
                None if round == 0 && !application => {}
                None => runs.push(run(Role::WithoutLayer, arm, round)),
                Some(_) => runs.push(run(Role::Timed, arm, round)),
            }
            if application {
                runs.push(run(Role::Short, arm, round));
            }
        }
    }
    if packets {
        runs.extend(arms.iter().map(|arm| run(Role::Packets, *arm, 0)));
    }
    runs
}

/// The engine alone, the set-up runs of `stock`, `policies` and `control`, and the timed runs of all but the last.
fn timed_runs(policies: &[Policy], settings: u16, control: Option<Policy>, reps: u32) -> Vec<RunSpec> {
    let mut runs = vec![RunSpec::WITHOUT_LAYER];
    let timed: Vec<Policy> = std::iter::once(Policy::Stock).chain(policies.iter().copied()).collect();
    runs.extend(timed.iter().copied().chain(control).map(|p| RunSpec::new(Role::Setup, p, Shuffle::Off)));
    for knob in 1..=settings {
        runs.extend(timed.iter().map(|p| RunSpec { knob, ..RunSpec::new(Role::Setup, *p, Shuffle::Off) }));
    }
    runs.extend((0..reps).flat_map(|r| round(policies, settings, r)));
    runs
}

/// The timed runs of one round: `stock` and the policies beside it, under each setting. Every other round runs backwards, so that no arm
/// always follows the same neighbour.
pub fn round(policies: &[Policy], settings: u16, round: u32) -> Vec<RunSpec> {
    let layered = || std::iter::once(Policy::Stock).chain(policies.iter().copied());
    let timed = |knob, p| RunSpec { round, knob, ..RunSpec::new(Role::Timed, p, Shuffle::Off) };
    let mut order: Vec<RunSpec> =
        (0..=settings).flat_map(|knob| layered().map(move |p| timed(knob, p))).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// The runs that decide whether a setting passes under `stock`: in order, and reversed, of the program that is swept and
/// of those of its gates.
pub fn narrow_runs(knob: u16, probes: &[Probe]) -> Vec<RunSpec> {
    let mut runs = vec![
        RunSpec { knob, ..RunSpec::new(Role::Timed, Policy::Stock, Shuffle::Off) },
        RunSpec { knob, ..RunSpec::new(Role::Shuffled, Policy::Stock, Shuffle::Reverse) },
    ];
    for probe in probes.iter().copied().filter(|p| *p != Probe::Main && p.sees_settings()) {
        runs.push(RunSpec { knob, probe, ..RunSpec::new(Role::InOrder, Policy::Stock, Shuffle::Off) });
        runs.push(RunSpec { knob, probe, ..RunSpec::new(Role::Shuffled, Policy::Stock, Shuffle::Reverse) });
    }
    runs
}

/// The seeds of the shuffled arms.
pub fn seeds(seed: u64) -> impl Iterator<Item = u64> {
    (0..SEEDED_SHUFFLES).map(move |i| seed.wrapping_add(i))
}

/// The orders under which a drop is tried, one after the other until it is noticed.
pub fn drop_orders(probe: Probe, seed: u64) -> Vec<Shuffle> {
    if probe.sees_order() { vec![Shuffle::Reverse, Shuffle::Seed(seed)] } else { vec![Shuffle::Off] }
}

/// A sample of `count` different barriers out of `emitted`, in ascending order: `emitted` is cut into `count` equal
/// stretches and one barrier is drawn from each, so that no part of the token is left out and no period of the layers
/// (every seventh barrier, say) is hit in step. The same seed draws the same sample. All of them, if `count` is not
/// less than `emitted`.
pub fn sample(emitted: u64, count: u32, seed: u64) -> Vec<u64> {
    let count = u64::from(count).min(emitted);
    let edge = |i: u64| (u128::from(i) * u128::from(emitted) / u128::from(count)) as u64;
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..count).map(|i| rng.u64(edge(i)..edge(i + 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_run_is_named_by_the_values_of_its_setting() {
        let set = |name: &str, value: &str| (name.to_string(), value.to_string());
        let settings = [vec![], vec![set("HK_BARRIER_MASK", "0x7f"), set("A", "1")]];
        let plain = RunSpec::new(Role::Timed, Policy::Stock, Shuffle::Off);
        assert_eq!(plain.words(&settings), plain.to_string());
        let words = RunSpec { knob: 1, ..plain }.words(&settings);
        assert!(words.contains("HK_BARRIER_MASK=0x7f A=1") && !words.contains("setting"), "{words}");
    }

    #[test]
    fn the_main_job_makes_the_runs_that_the_module_promises() {
        let runs = fixed_runs(&[Policy::AliasOnly], 0, 3, 1);
        let text: Vec<String> = runs.iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                "without the layer",
                "stock (set-up)",
                "alias-only (set-up)",
                "none (set-up)",
                "stock",
                "alias-only",
                "alias-only",
                "stock",
                "stock",
                "alias-only",
                "stock, shuffle reverse",
                "alias-only, shuffle reverse",
                "alias-only, shuffle 1",
                "alias-only, shuffle 2",
                "alias-only, shuffle 3",
                "none, shuffle reverse (control)",
            ]
        );
        assert_eq!(runs.iter().filter(|r| r.is_reference()).map(|r| r.round).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn on_a_driver_that_only_records_nothing_is_run_to_prove_anything() {
        let runs = recorded_runs(&[Policy::AliasOnly, Policy::None], 0, 2, false, false);
        let text: Vec<String> = runs.iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                "without the layer",
                "stock (set-up)",
                "alias-only (set-up)",
                "none (set-up)",
                "stock",
                "alias-only",
                "none",
                "none",
                "alias-only",
                "stock",
                "without the layer",
            ]
        );
    }

    #[test]
    fn each_timed_run_of_an_application_has_a_short_one_beside_it() {
        let runs = recorded_runs(&[Policy::AliasOnly], 0, 3, false, true);
        for timed in runs.iter().filter(|r| matches!(r.role, Role::Timed | Role::WithoutLayer)) {
            let short = runs.iter().filter(|r| **r == RunSpec { role: Role::Short, ..*timed });
            assert_eq!(short.count(), 1, "{timed}");
        }
        assert_eq!(runs.iter().filter(|r| r.role == Role::Short).count(), 9);
        assert_eq!(runs[0].role, Role::Setup, "a run with cold caches is not timed");
    }

    #[test]
    fn the_packet_counter_gets_runs_of_its_own_and_stays_out_of_the_timed_ones() {
        let runs = recorded_runs(&[Policy::AliasOnly], 0, 2, true, false);
        let counted: Vec<String> =
            runs.iter().filter(|r| r.counts_packets()).map(ToString::to_string).collect();
        assert_eq!(
            counted,
            [
                "without the layer (set-up)",
                "stock (set-up)",
                "alias-only (set-up)",
                "without the layer (packets)",
                "stock (packets)",
                "alias-only (packets)",
            ]
        );
        assert!(
            !runs.iter().any(|r| r.counts_packets() && matches!(r.role, Role::Timed | Role::WithoutLayer))
        );
    }

    #[test]
    fn an_incorrect_policy_is_timed_but_never_shuffled_to_prove_it_right() {
        let runs = fixed_runs(&[Policy::None], 0, 1, 1);
        assert!(runs.iter().any(|r| r.role == Role::Timed && r.policy == Some(Policy::None)));
        assert!(!runs.iter().any(|r| r.role == Role::Shuffled && r.policy == Some(Policy::None)));
    }

    #[test]
    fn whatever_was_asked_for_the_control_runs() {
        for policies in [&[][..], &[Policy::None], &Policy::ALL[1..]] {
            let runs = fixed_runs(policies, 0, 1, 9);
            assert_eq!(runs.iter().filter(|r| r.role == Role::Control).count(), 1);
            let set_up = |r: &&RunSpec| r.role == Role::Setup && r.policy == Some(Policy::None);
            assert_eq!(runs.iter().filter(set_up).count(), 1);
        }
    }

    #[test]
    fn repetitions_are_of_the_same_arm_and_permutations_are_not() {
        let runs = fixed_runs(&[Policy::AliasOnly], 0, 2, 1);
        let reference: Vec<_> = runs.iter().filter(|r| r.is_reference()).collect();
        assert!(reference[0].same_arm(reference[1]));
        let shuffled: Vec<_> = runs.iter().filter(|r| r.role == Role::Shuffled).collect();
        assert!(!shuffled[1].same_arm(shuffled[2]));
    }

    proptest! {
        #[test]
        fn a_sample_is_spread_evenly_repeatable_and_in_range(
            emitted in 0u64..5000, count in 0u32..200, seed: u64
        ) {
            let drawn = sample(emitted, count, seed);
            prop_assert_eq!(drawn.len() as u64, u64::from(count).min(emitted));
            prop_assert!(drawn.iter().all(|k| *k < emitted));
            prop_assert!(drawn.windows(2).all(|w| w[0] < w[1]), "ascending, each once: {:?}", drawn);
            prop_assert_eq!(&drawn, &sample(emitted, count, seed));
            if let Some(stretch) = emitted.checked_div(u64::from(count)) {
                prop_assert!(drawn.windows(2).all(|w| w[1] - w[0] <= 2 * (stretch + 1)));
            }
        }
    }

    #[test]
    fn seeds_that_overflow_wrap() {
        assert_eq!(seeds(u64::MAX).collect::<Vec<_>>(), [u64::MAX, 0, 1]);
        assert_eq!(sample(u64::MAX, 3, 7).len(), 3);
    }
}
