//! Valid SPIR-V from several front ends, made odd, judged by the logging copy.
//!
//! A case is a random source, compiled by a random front end in a random way, and the same module after random changes that
//! keep its meaning (`odd`). The logging copy of the compiled module runs on a CPU device. What it has seen must lie within
//! what the crate says, of the compiled module and of the changed one alike: direction and elements as a pipeline sees them
//! and as the module alone shows them (rule 6), and extents (rule 16). The other way round is counted and not judged: how
//! often an extent is the whole binding although the accesses are not.
//!
//! A seed and a number decide all of a case, so a finding is replayed by its number.

mod flags;
mod flat;
mod front_ends;
mod odd;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;
use zinc_reflect::{
    Direction, Dispatch, Elements, EntryPoint, Extent, Fault, Footprint, Specialization, Stage, reflect,
    reflect_specialized,
};

use crate::escapes::escapes;
use crate::generate::{ADDRESSES, REACH, WORDS, division};
use crate::gpu::{Constant, Gpu, Seen};
use crate::instrument::{Through, instrument};
use flat::Flat;
pub use front_ends::{FrontEnd, available};
pub use odd::Kind;

/// Bytes of push constants.
const PUSHED: usize = 40;

/// One module with its dispatches.
pub struct Case {
    /// The source, and how it was compiled and changed.
    pub text: String,
    pub how: String,
    pub compiled: Vec<u32>,
    pub changed: Vec<u32>,
    pub kinds: Vec<Kind>,
    /// Values for the compiled module, and for the changed one.
    plain: Vec<Constant>,
    given: Vec<Constant>,
    dispatches: Vec<([u8; PUSHED], [u32; 3])>,
}

/// How a number of cases came out.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    pub cases: usize,
    /// The compiler or the optimiser refused, or the log doesn't know an instruction.
    pub refused: usize,
    /// The first line of what the compiler said.
    pub refusals: BTreeMap<String, usize>,
    pub not_logged: usize,
    /// Changed modules whose own logging copy saw what that of the compiled one saw.
    pub same: usize,
    /// Intervals of bytes that were seen, each held against three answers.
    pub seen: usize,
    /// Of bindings: extents of the changed module, and how many of them are whole although what was seen is not.
    pub extents: usize,
    pub whole: usize,
    /// Modules of which nothing is known, by why.
    pub unknown: BTreeMap<String, usize>,
    /// What is wrong.
    pub findings: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.cases += other.cases;
        self.refused += other.refused;
        self.not_logged += other.not_logged;
        self.same += other.same;
        self.seen += other.seen;
        self.extents += other.extents;
        self.whole += other.whole;
        for (mine, theirs) in [(&mut self.unknown, &other.unknown), (&mut self.refusals, &other.refusals)] {
            theirs.iter().for_each(|(why, count)| *mine.entry(why.clone()).or_default() += count);
        }
        self.findings.extend(other.findings.iter().cloned());
    }

    /// A row of the table of a run.
    pub fn row(&self, name: &str) -> String {
        let rate = 100.0 * self.whole as f64 / self.extents.max(1) as f64;
        let unknown: usize = self.unknown.values().sum();
        format!(
            "| {name} | {} | {} | {} | {} | {} | {rate:.1}% of {} | {unknown} | {} |",
            self.cases,
            self.refused,
            self.not_logged,
            self.same,
            self.seen,
            self.extents,
            self.findings.len()
        )
    }
}

/// The head of the table of a run.
pub const HEAD: &str = "| | cases | refused by the compiler | not logged | logged when changed, too | intervals seen | whole, and the accesses not | unknown | findings |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |";

fn mixed(seed: u64, number: u64) -> u64 {
    (seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd1b5_4a32_d192_ed03)
}

/// The buffers that addresses lead into.
fn buffers(arena: u64) -> [(u64, u64); 2] {
    [(arena, arena + REACH), (arena + REACH, arena + 2 * REACH)]
}

fn dispatch(rng: &mut Rng, arena: u64) -> ([u8; PUSHED], [u32; 3]) {
    let (magic, shift) = division(rng.u32(1..300));
    let mut push = [0; PUSHED];
    let values = [0; 4].map(|_: i32| [3u32, 17, 100, 256, 1000, 0][rng.usize(0..6)]);
    for (bytes, value) in push.chunks_mut(4).zip(values.into_iter().chain([magic, shift])) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
    for (at, (address, _)) in ADDRESSES.into_iter().zip(buffers(arena)) {
        push[at..at + 8].copy_from_slice(&address.to_le_bytes());
    }
    (push, [rng.u32(1..6), rng.u32(1..4), 1])
}

impl Case {
    /// Makes the case of a seed and a number.
    ///
    /// # Errors
    ///
    /// What the compiler says of its source, or spirv-val of the module: the second is a finding, and begins with
    /// "spirv-val".
    pub fn new(
        folder: &Path,
        front_ends: &[FrontEnd],
        seed: u64,
        number: u64,
        arena: u64,
    ) -> Result<Case, String> {
        let mut rng = Rng::with_seed(mixed(seed, number));
        let front_end = front_ends[rng.usize(0..front_ends.len())];
        let length = rng.usize(200..600);
        let choices: Vec<u16> = (0..length).map(|_| rng.u16(..)).collect();
        let compiled = front_ends::compile(folder, front_end, &mut rng, &choices)?;
        front_ends::validate(folder, &compiled.words)
            .map_err(|error| format!("{}: the compiler's module: {error}", compiled.how))?;
        let mut plain: Vec<Constant> = vec![(3, rng.u64(0..30), 4)];
        plain.extend(compiled.constants);
        let dispatches = [0; 2].map(|_: i32| dispatch(&mut rng, arena)).into();
        let (mut flat, mut given, mut kinds) = (Flat::new(&compiled.words), Vec::new(), Vec::new());
        let density = rng.u32(1..5);
        for kind in Kind::ALL {
            let often = match kind {
                // Of these only the compiled module can be logged, and of untyped pointers nothing but the answer is seen.
                Kind::Stores | Kind::Selects => 2 * density,
                Kind::Untyped => 8,
                _ => density,
            };
            if rng.u32(0..often) == 0 && kind.apply(&mut flat, &mut rng, &mut given) {
                kinds.push(kind);
            }
        }
        let how = format!("{}; {kinds:?}", compiled.how);
        let changed = flat.words();
        if !kinds.contains(&Kind::Untyped) {
            let (major, minor) = flat.version();
            front_ends::validate(folder, &changed)
                .map_err(|error| format!("spirv-val of {major}.{minor}, {how}: {error}"))?;
        }
        given.extend(plain.iter().copied());
        Ok(Case {
            text: compiled.text,
            how,
            compiled: compiled.words,
            changed,
            kinds,
            plain,
            given,
            dispatches,
        })
    }

    /// What the logging copy of the compiled module sees of each dispatch; nothing where the log doesn't know an
    /// instruction.
    pub fn seen(&self, gpu: &Gpu) -> Result<Option<Vec<Seen>>, String> {
        self.logged(gpu, &self.compiled, &self.plain)
    }

    /// The same of the changed module, which must touch the same bytes. Pointers that are handed on or chosen are not known
    /// to the log, nor are untyped ones.
    fn seen_changed(&self, gpu: &Gpu) -> Result<Option<Vec<Seen>>, String> {
        let unknown = [Kind::Stores, Kind::Selects, Kind::Untyped];
        if self.kinds.iter().any(|kind| unknown.contains(kind)) {
            return Ok(None);
        }
        let mut flat = Flat::new(&self.changed);
        flat.ungroup();
        self.logged(gpu, &flat.words(), &self.given)
    }

    fn logged(&self, gpu: &Gpu, words: &[u32], constants: &[Constant]) -> Result<Option<Vec<Seen>>, String> {
        let logged = catch_unwind(AssertUnwindSafe(|| instrument(words, gpu.address)));
        let Ok(logged) = logged else { return Ok(None) };
        let sizes: BTreeMap<(u32, u32), u64> =
            [(0, 0), (0, 1), (1, 2), (1, 3)].map(|place| (place, WORDS * 4)).into_iter().collect();
        let run = |(push, groups): &([u8; PUSHED], [u32; 3])| {
            let dispatch = Dispatch { push_constants: push, groups: *groups, base: [0; 3] };
            gpu.run_with(&logged, "main", constants, &dispatch, &sizes, |index| {
                (index as u32).wrapping_mul(7)
            })
        };
        self.dispatches.iter().map(run).collect::<Result<Vec<Seen>, String>>().map(Some)
    }

    /// Holds what was seen against what the crate says with a fault built in, or without one.
    pub fn judge(&self, seen: &[Seen], arena: u64, fault: Fault) -> Tally {
        let mut tally = Tally { cases: 1, ..Tally::default() };
        for (name, words, constants) in
            [("compiled", &self.compiled, &self.plain), ("changed", &self.changed, &self.given)]
        {
            let said = self.answers(words, constants, fault);
            let (directions, footprint) = match said {
                Ok(said) => said,
                Err(error) => {
                    tally.findings.push(format!("{name}: {error}"));
                    continue;
                }
            };
            if let Some(why) = directions.iter().find_map(|(_, entry)| entry.unknown.clone()) {
                *tally.unknown.entry(why).or_default() += 1;
            }
            for (seen, (push, groups)) in seen.iter().zip(&self.dispatches) {
                let dispatch = Dispatch { push_constants: push, groups: *groups, base: [0; 3] };
                let extents = footprint.evaluate(&dispatch);
                for escape in escapes(seen, &extents, &dispatch, &buffers(arena)) {
                    tally.findings.push(format!("{name}: {escape}"));
                }
                for (answer, entry) in &directions {
                    tally
                        .findings
                        .extend(undirected(seen, entry).map(|what| format!("{name}, {answer}: {what}")));
                }
                tally.seen += seen.len();
                if name == "changed" {
                    let not_whole = seen.iter().filter(|((through, _), (low, high))| {
                        matches!(through, Through::Binding(..)) && (*low > 0 || *high < WORDS * 4)
                    });
                    for ((through, write), _) in not_whole {
                        let Through::Binding(set, binding) = through else { continue };
                        let extent =
                            extents.binding(*set, *binding).map(|b| if *write { b.write } else { b.read });
                        tally.extents += 1;
                        tally.whole += usize::from(matches!(extent, Some(Extent::Whole { .. })));
                    }
                }
            }
        }
        tally
    }

    /// What the crate says of a module: by direction in each way to ask, and the footprint.
    fn answers(&self, words: &[u32], constants: &[Constant], fault: Fault) -> Result<Answers, String> {
        let constants = &specialization(constants);
        let main = |module: zinc_reflect::Module| {
            module.entry_point("main", Stage::Compute).cloned().ok_or("no entry point main")
        };
        let alone = main(reflect(words).map_err(|error| error.to_string())?)?;
        let pipeline = main(reflect_specialized(words, constants).map_err(|error| error.to_string())?)?;
        let footprint =
            Footprint::compile_with(words, "main", constants, fault).map_err(|error| error.to_string())?;
        let of_footprint = footprint.entry_point().clone();
        Ok((vec![("module", alone), ("pipeline", pipeline), ("footprint", of_footprint)], footprint))
    }
}

/// Constants as `VkSpecializationInfo` brings them, one behind the other.
fn specialization(constants: &[Constant]) -> Specialization {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (id, bits, size) in constants {
        entries.push((*id, data.len(), *size));
        data.extend_from_slice(&bits.to_le_bytes()[..*size]);
    }
    Specialization::from_entries(entries, &data)
}

/// The bytes of each place, without the ids of pointers, which changes may have renumbered.
fn places(seen: &[Seen]) -> Vec<Touched> {
    let of_one = |seen: &Seen| {
        let mut found = BTreeMap::new();
        for ((through, write), (low, high)) in seen {
            let at = match through {
                Through::Binding(set, binding) => Some((*set, *binding)),
                Through::Pointer(_) => None,
            };
            let (first, end) = found.get(&(at, *write)).copied().unwrap_or((u64::MAX, 0));
            found.insert((at, *write), (first.min(*low), end.max(*high)));
        }
        found
    };
    seen.iter().map(of_one).collect()
}

/// What the crate says of a module in each way to ask for directions, and its footprint.
type Answers = (Vec<(&'static str, EntryPoint)>, Footprint);

/// What a dispatch touches, by binding (nothing for what is reached by address) and by whether it is written.
type Touched = BTreeMap<(Option<(u32, u32)>, bool), (u64, u64)>;

/// What was seen and is not in an entry point's directions and elements.
fn undirected<'s>(seen: &'s Seen, entry: &'s EntryPoint) -> impl Iterator<Item = String> + 's {
    seen.keys().filter_map(move |(through, write)| {
        let done = if *write { Direction::WRITE } else { Direction::READ };
        let holds = match through {
            Through::Binding(set, binding) => entry.binding(*set, *binding).is_some_and(|found| {
                let reached = match &found.elements {
                    Elements::All => true,
                    Elements::These(elements) => elements.contains(&0),
                };
                found.direction.contains(done) && reached
            }),
            Through::Pointer(_) => entry.addresses.contains(done),
        };
        (!holds).then(|| format!("{through:?} is {done}, and said was {entry:?}"))
    })
}

/// What a run is.
pub struct Run<'a> {
    pub gpu: &'a Gpu,
    pub front_ends: &'a [FrontEnd],
    pub seed: u64,
    pub first: u64,
    /// It ends when one of both is reached.
    pub most: u64,
    pub time: Duration,
    /// Where the modules of findings are written to.
    pub keep: Option<&'a Path>,
}

/// The tallies of a run: for each front end, and for each kind of change the cases in which it was made.
#[derive(Default)]
pub struct Outcome {
    pub front_ends: BTreeMap<FrontEnd, Tally>,
    pub kinds: BTreeMap<Kind, Tally>,
}

impl Outcome {
    pub fn all(&self) -> Tally {
        let mut all = Tally::default();
        self.front_ends.values().for_each(|tally| all.add(tally));
        all
    }

    /// The tables of a run.
    pub fn table(&self) -> String {
        let mut out = format!("{HEAD}\n");
        for (front_end, tally) in &self.front_ends {
            let _ = writeln!(out, "{}", tally.row(&format!("{front_end:?}")));
        }
        let _ = writeln!(out, "{}", self.all().row("all"));
        for (kind, tally) in &self.kinds {
            let _ = writeln!(out, "{}", tally.row(&format!("changed by `{kind:?}`")));
        }
        out
    }
}

impl Run<'_> {
    /// Runs it; `each` hears of every finding as it is made.
    pub fn run(&self, each: impl Fn(&str)) -> Outcome {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (began, mut outcome) = (Instant::now(), Outcome::default());
        for number in (self.first..).take(self.most as usize) {
            if began.elapsed() >= self.time {
                break;
            }
            let (front_end, kinds, tally) = self.case(folder.path(), number);
            for finding in &tally.findings {
                each(finding);
            }
            outcome.front_ends.entry(front_end).or_default().add(&tally);
            for kind in kinds {
                outcome.kinds.entry(kind).or_default().add(&tally);
            }
        }
        outcome
    }

    fn case(&self, folder: &Path, number: u64) -> (FrontEnd, Vec<Kind>, Tally) {
        let mut rng = Rng::with_seed(mixed(self.seed, number));
        let front_end = self.front_ends[rng.usize(0..self.front_ends.len())];
        let mut tally = Tally { cases: 1, ..Tally::default() };
        let again = format!("again: --seed {} --first {number} --cases 1", self.seed);
        let case = match Case::new(folder, self.front_ends, self.seed, number, self.gpu.address) {
            Ok(case) => case,
            Err(error) if error.starts_with("spirv-val") => {
                tally.findings.push(format!("{error}\n  {again}"));
                return (front_end, Vec::new(), tally);
            }
            Err(error) => {
                // Most are modules that spirv-opt itself refuses; more than a few would be the generator's fault.
                *tally.refusals.entry(error.lines().next().unwrap_or_default().to_owned()).or_default() += 1;
                tally.refused = 1;
                return (front_end, Vec::new(), tally);
            }
        };
        match case.seen(self.gpu) {
            Ok(Some(seen)) => {
                tally = case.judge(&seen, self.gpu.address, Fault::None);
                match case.seen_changed(self.gpu) {
                    Ok(Some(changed)) => {
                        tally.same += 1;
                        if places(&changed) != places(&seen) {
                            tally.findings.push("the change is none that keeps the meaning".to_owned());
                        }
                    }
                    Ok(None) => {}
                    Err(error) => tally.findings.push(format!("the changed module's logging copy: {error}")),
                }
                if let Some(keep) = self.keep.filter(|_| !tally.findings.is_empty()) {
                    for (name, words) in [("compiled", &case.compiled), ("changed", &case.changed)] {
                        let written = front_ends::write(&keep.join(format!("{number}-{name}.spv")), words);
                        tally.findings.extend(written.err());
                    }
                    let how = format!("{:?}\n{:?}\n{:?}\n{seen:?}", case.plain, case.given, case.dispatches);
                    let written = std::fs::write(keep.join(format!("{number}.txt")), how);
                    tally.findings.extend(written.err().map(|error| format!("{}: {error}", keep.display())));
                }
                for finding in &mut tally.findings {
                    let _ = write!(finding, "\n  {}\n  {again}\n{}", case.how, case.text);
                }
            }
            Ok(None) => tally.not_logged = 1,
            Err(error) => {
                tally.findings.push(format!("the logging copy: {error}\n  {}\n  {again}", case.how))
            }
        }
        (front_end, case.kinds, tally)
    }
}

/// A module that spirv-val must refuse: blocks in an order in which one stands before the one that dominates it, or a block
/// without a terminator. Nothing for a module with one block.
pub fn broken(words: &[u32], rng: &mut Rng) -> Option<Vec<u32>> {
    let mut flat = Flat::new(words);
    let ranges = flat.function_ranges();
    let blocks = ranges.into_iter().map(|range| flat.blocks(range)).find(|blocks| blocks.len() > 2)?;
    if rng.bool() {
        flat.insts.remove(blocks[1].end);
    } else {
        let (first, last) = (blocks[0].start, blocks[blocks.len() - 1].end);
        let text: Vec<flat::Inst> =
            blocks.iter().rev().flat_map(|block| flat.insts[block.start..=block.end].to_vec()).collect();
        flat.insts.splice(first..=last, text);
    }
    Some(flat.words())
}

/// Whether spirv-val accepts a module.
pub fn accepted(folder: &Path, words: &[u32]) -> bool {
    front_ends::validate(folder, words).is_ok()
}
