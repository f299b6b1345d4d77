//! Which descriptors a pointer or handle could denote.
//!
//! A points-to analysis in its simplest sound form: for every id the set of places that it could denote, for every
//! variable the set of places that pointers stored in it could denote, grown until nothing changes. It ignores the
//! order of instructions (a pointer stored after a load counts for the load), the fields of aggregates, and who
//! called a function; all three can only add places. Only what an entry point's functions contain is looked at, so
//! two entry points of one module don't blur each other.
//!
//! Physical addresses are one place, [`Place::ADDRESS`]: any pointer of that kind that comes from a number or from
//! memory denotes it. It is followed by origin and not by type, because NVIDIA's decode functions receive a pointer
//! of that kind into the *descriptor* that their load reads: by type alone every quantized matrix multiplication
//! would touch all addressable memory.
//!
//! Pointer graphs that no compiler makes are given up on instead of being paid for.

use std::collections::{BTreeSet, HashMap};

use rspirv::spirv::StorageClass;

use crate::meaning::{Meaning, Sources, Touch, meaning};
use crate::module::Parsed;
use crate::types::Type;
use crate::words::Inst;

/// Most places that one id may denote before the analysis gives up.
const MOST_PLACES: usize = 256;
/// Most rounds; one is enough where every definition stands before its uses, each detour through a variable, a loop
/// or a later function may ask for another.
const MOST_ROUNDS: usize = 64;

/// A variable, or the one place behind all physical addresses, and which descriptor of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// Id of the variable, 0 for addresses.
    pub variable: u32,
    pub part: Part,
}

/// How much of a variable a pointer denotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    /// The variable itself: a first index picks a descriptor if it is an array.
    Whole,
    /// One descriptor of an array.
    Element(u32),
    /// Some descriptor of an array.
    Any,
}

impl Place {
    /// All memory that physical addresses reach.
    pub const ADDRESS: Place = Place { variable: 0, part: Part::Any };

    /// The place that an access chain ends in, from this one.
    fn chained(self, array: bool, first_index: Option<Option<u64>>) -> Place {
        let part = match (array, self.part, first_index) {
            (false, part, _) => part,
            // A typed chain picks a descriptor once.
            (true, Part::Whole, Some(Some(index))) => u32::try_from(index).map_or(Part::Any, Part::Element),
            (true, Part::Element(index), Some(_)) => Part::Element(index),
            // Untyped chains and those that step from element to element may land on any.
            _ => Part::Any,
        };
        Place { part, ..self }
    }
}

/// What the analysis found.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// What each id could denote.
    denotes: HashMap<u32, BTreeSet<Place>>,
    /// What the pointers and handles stored in each variable could denote.
    contents: HashMap<u32, BTreeSet<Place>>,
    /// What each function could return.
    returns: HashMap<u32, BTreeSet<Place>>,
    /// The functions that the entry point could reach, itself included.
    pub functions: BTreeSet<u32>,
    /// Why the result can't be relied on, if so.
    pub gave_up: Option<String>,
    changed: bool,
}

impl Flow {
    /// Runs the analysis from the function `start`.
    pub fn analyse(parsed: &Parsed<'_>, start: u32) -> Flow {
        let mut flow = Flow::default();
        flow.reach(parsed, start);
        // What carries nothing need not be looked at again: the first round keeps the rest.
        let mut work: Vec<(Option<u32>, usize, Meaning)> = Vec::new();
        for index in &parsed.outside {
            work.push((None, *index, meaning(parsed, &parsed.instructions[*index])));
        }
        for function in &flow.functions {
            for index in parsed.functions[function].body.clone() {
                work.push((Some(*function), index, meaning(parsed, &parsed.instructions[index])));
            }
        }
        work.retain(|(_, index, meaning)| flow.matters(parsed, &parsed.instructions[*index], meaning));
        for _ in 0..MOST_ROUNDS {
            flow.changed = false;
            for (function, index, meaning) in &work {
                flow.step(parsed, *function, &parsed.instructions[*index], meaning);
            }
            if !flow.changed || flow.gave_up.is_some() {
                return flow;
            }
        }
        flow.give_up(format!("pointers that don't settle in {MOST_ROUNDS} rounds"));
        flow
    }

    /// What an id could denote.
    pub fn denotes(&self, id: u32) -> impl Iterator<Item = Place> + '_ {
        self.denotes.get(&id).into_iter().flatten().copied()
    }

    /// Everything that the words of an instruction that isn't listed could denote, through pointers stored in what
    /// they denote too.
    pub fn all_behind(&self, inst: &Inst<'_>) -> BTreeSet<Place> {
        let mut found = BTreeSet::new();
        let mut open: Vec<Place> = inst.from(1).iter().flat_map(|word| self.denotes(*word)).collect();
        while let Some(place) = open.pop() {
            if found.insert(place) {
                open.extend(self.contents.get(&place.variable).into_iter().flatten());
            }
        }
        found
    }

    /// Collects the functions that `start` could call, directly or not.
    fn reach(&mut self, parsed: &Parsed<'_>, start: u32) {
        let mut open = vec![start];
        for index in &parsed.outside {
            let inst = &parsed.instructions[*index];
            if matches!(meaning(parsed, inst), Meaning::Unlisted) {
                open.extend(inst.from(1).iter().filter(|word| parsed.functions.contains_key(word)));
            }
        }
        while let Some(id) = open.pop() {
            let Some(function) = parsed.functions.get(&id) else {
                self.give_up(format!("a call of %{id}, which is no function"));
                continue;
            };
            if !self.functions.insert(id) {
                continue;
            }
            if !function.defined {
                self.give_up(format!("a call of %{id}, which has no body"));
            }
            for inst in &parsed.instructions[function.body.clone()] {
                match meaning(parsed, inst) {
                    Meaning::Call => open.push(inst.word(3)),
                    Meaning::Touch(Touch { calls, .. }) if calls != 0 => {
                        open.extend(
                            inst.from(calls).iter().filter(|word| parsed.functions.contains_key(word)),
                        );
                    }
                    Meaning::Unlisted => {
                        open.extend(inst.from(1).iter().filter(|word| parsed.functions.contains_key(word)));
                    }
                    _ => {}
                }
            }
        }
    }

    fn give_up(&mut self, reason: String) {
        self.gave_up.get_or_insert(reason);
    }

    /// Whether an instruction can move a pointer or handle.
    fn matters(&self, parsed: &Parsed<'_>, inst: &Inst<'_>, meaning: &Meaning) -> bool {
        let carries = |id: u32| !parsed.types.carries(parsed.type_of(id)).nothing();
        match meaning {
            Meaning::Ignored | Meaning::Barrier { .. } => false,
            Meaning::Variable { .. } | Meaning::Call | Meaning::Unlisted => true,
            Meaning::Return => carries(inst.word(1)),
            Meaning::Value(_) | Meaning::Reinterpret | Meaning::Chain { .. } => carries(inst.word(2)),
            Meaning::Touch(Touch { read, write, stored, calls, .. }) => {
                let copies = *read != 0 && *write != 0 && *read != *write;
                let loads = *read != 0 && *write == 0 && carries(inst.word(2));
                copies || loads || *calls != 0 || *stored != 0 && carries(inst.word(*stored))
            }
        }
    }

    fn step(&mut self, parsed: &Parsed<'_>, function: Option<u32>, inst: &Inst<'_>, meaning: &Meaning) {
        match *meaning {
            Meaning::Ignored | Meaning::Barrier { .. } => {}
            Meaning::Value(sources) => {
                let places = match sources {
                    Sources::From(first) => self.union(inst.from(first).iter().copied()),
                    Sources::Only(positions) => {
                        self.union(positions.iter().map(|position| inst.word(*position)))
                    }
                };
                self.result(parsed, inst.word(2), places);
            }
            Meaning::Reinterpret => {
                // The same descriptors seen through another type: no chain may pick one by its first index.
                let places = self.denotes(inst.word(3));
                let mut places: BTreeSet<Place> =
                    places.map(|place| place.chained(is_array(parsed, place.variable), None)).collect();
                if parsed.types.carries(parsed.type_of(inst.word(3))).nothing() {
                    places.insert(Place::ADDRESS);
                }
                self.result(parsed, inst.word(2), places);
            }
            Meaning::Variable { initializer } => {
                let variable = inst.word(2);
                self.result(parsed, variable, BTreeSet::from([Place { variable, part: Part::Whole }]));
                let stored = self.union([inst.word(initializer)]);
                self.store(variable, stored);
            }
            Meaning::Chain { base, first_index } => {
                let typed = first_index != 0 && !parsed.untyped;
                let first_index = typed.then(|| match inst.word(first_index) {
                    // A chain without an index stays where it is, which "no known index" covers.
                    0 => None,
                    index => parsed.constants.get(&index).copied(),
                });
                let places = self.denotes(inst.word(base));
                let places = places
                    .map(|place| place.chained(is_array(parsed, place.variable), first_index))
                    .collect();
                self.result(parsed, inst.word(2), places);
            }
            Meaning::Touch(touch) => self.touch(parsed, inst, &touch),
            Meaning::Call => {
                let callee = inst.word(3);
                if let Some(function) = parsed.functions.get(&callee) {
                    for (formal, actual) in function.parameters.iter().zip(inst.from(4)) {
                        let places = self.union([*actual]);
                        self.result(parsed, *formal, places);
                    }
                }
                let places = self.returns.get(&callee).cloned().unwrap_or_default();
                self.result(parsed, inst.word(2), places);
            }
            Meaning::Return => {
                let (places, function) = (self.union([inst.word(1)]), function.unwrap_or(0));
                let grown = grow(self.returns.entry(function).or_default(), places);
                self.note(grown, function);
            }
            Meaning::Unlisted => self.unlisted(parsed, inst),
        }
    }

    /// Loads, stores and copies of pointers and handles, and functions named by operands.
    fn touch(&mut self, parsed: &Parsed<'_>, inst: &Inst<'_>, touch: &Touch) {
        if touch.calls != 0 {
            let arguments = self.union(inst.from(3).iter().copied());
            self.call_named(parsed, inst.from(touch.calls), &arguments);
        }
        let targets: Vec<Place> = self.denotes(inst.word(touch.write)).collect();
        if touch.stored != 0 {
            let places = self.union([inst.word(touch.stored)]);
            for target in &targets {
                self.store(target.variable, places.clone());
            }
        }
        if touch.read != 0 && touch.read != touch.write {
            let mut loaded = BTreeSet::new();
            for source in self.denotes(inst.word(touch.read)) {
                loaded.extend(self.contents.get(&source.variable).into_iter().flatten());
                let class = parsed.variables.get(&source.variable).map(|variable| variable.class);
                if class == Some(StorageClass::UniformConstant as u32) {
                    // The variable holds the handle: what is loaded denotes the descriptor.
                    loaded.insert(source);
                }
                let own = class == Some(StorageClass::Function as u32)
                    || class == Some(StorageClass::Private as u32);
                if !own || parsed.untyped {
                    // An address that was in memory. Where the loaded type holds none, nothing comes of it.
                    loaded.insert(Place::ADDRESS);
                }
            }
            if touch.write == 0 {
                self.result(parsed, inst.word(2), loaded);
            } else {
                for target in &targets {
                    self.store(target.variable, loaded.clone());
                }
            }
        }
    }

    /// Anything may happen to what an instruction that isn't listed names.
    fn unlisted(&mut self, parsed: &Parsed<'_>, inst: &Inst<'_>) {
        let mut places = self.all_behind(inst);
        if parsed.physical {
            places.insert(Place::ADDRESS);
        }
        let called = self.call_named(parsed, inst.from(1), &places);
        places.extend(called);
        for place in places.clone() {
            self.store(place.variable, places.clone());
        }
        let result = inst.result().map_or(inst.word(2), |(_, id)| id);
        if parsed.type_of.contains_key(&result) && !parsed.variables.contains_key(&result) {
            self.result(parsed, result, places);
        }
    }

    /// Calls every function among `words` with `arguments` in all parameters; returns what they return.
    fn call_named(
        &mut self,
        parsed: &Parsed<'_>,
        words: &[u32],
        arguments: &BTreeSet<Place>,
    ) -> BTreeSet<Place> {
        let mut returned = BTreeSet::new();
        for (id, function) in words.iter().filter_map(|word| Some((word, parsed.functions.get(word)?))) {
            for formal in &function.parameters {
                self.result(parsed, *formal, arguments.clone());
            }
            returned.extend(self.returns.get(id).into_iter().flatten());
        }
        returned
    }

    fn union(&self, ids: impl IntoIterator<Item = u32>) -> BTreeSet<Place> {
        ids.into_iter().flat_map(|id| self.denotes(id)).collect()
    }

    /// Adds to what an id could denote, as far as its type can denote anything.
    fn result(&mut self, parsed: &Parsed<'_>, id: u32, mut places: BTreeSet<Place>) {
        let carries = parsed.types.carries(parsed.type_of(id));
        if carries.nothing() {
            return;
        }
        if !carries.addresses {
            places.remove(&Place::ADDRESS);
        }
        let grown = grow(self.denotes.entry(id).or_default(), places);
        self.note(grown, id);
    }

    fn store(&mut self, variable: u32, places: BTreeSet<Place>) {
        if !places.is_empty() {
            let grown = grow(self.contents.entry(variable).or_default(), places);
            self.note(grown, variable);
        }
    }

    fn note(&mut self, grown: Grown, id: u32) {
        match grown {
            Grown::No => {}
            Grown::Yes => self.changed = true,
            Grown::TooFar => self.give_up(format!("%{id} could denote more than {MOST_PLACES} places")),
        }
    }
}

enum Grown {
    No,
    Yes,
    TooFar,
}

fn grow(set: &mut BTreeSet<Place>, places: BTreeSet<Place>) -> Grown {
    let before = set.len();
    set.extend(places);
    match set.len() {
        after if after > MOST_PLACES => Grown::TooFar,
        after if after > before => Grown::Yes,
        _ => Grown::No,
    }
}

/// Whether a variable holds an array of descriptors.
fn is_array(parsed: &Parsed<'_>, variable: u32) -> bool {
    let holds = parsed.variables.get(&variable).and_then(|variable| variable.holds);
    let ty = holds.and_then(|holds| parsed.types.get(holds));
    // An untyped variable may hold anything.
    ty.is_none() || matches!(ty, Some(Type::Array { .. } | Type::RuntimeArray { .. }))
}
