//! From "what could this denote" to "what is done to each binding".
//!
//! One pass over the functions that an entry point reaches, after the pointers have settled. What is collected here
//! are the facts that a barrier tracker needs: direction per binding, direction through physical addresses, and
//! whether the dispatch could hand data to somebody outside the barriers' order (`synchronising`).
//!
//! The net under everything: memory reached through a pointer that denotes nothing is an analysis that missed
//! something, and the entry point is unknown. Only a null or undefined pointer is there in a valid module, and an
//! access through one is undefined behaviour anyway.

use std::collections::{BTreeMap, HashMap};

use rspirv::spirv::{ExecutionModel, ImageOperands, MemoryAccess, MemorySemantics, Op, Scope, StorageClass};

use crate::api::{Binding, Class, Count, Direction, Elements, EntryPoint, Stage};
use crate::flow::{Flow, Part, Place};
use crate::meaning::{Meaning, Order, Touch, meaning};
use crate::module::{Entry, Parsed};
use crate::resource::{self, describe, merge_class, merge_count};
use crate::words::Inst;

/// First SPIR-V version whose entry points list their descriptors.
const LISTS_ALL: (u8, u8) = (1, 4);

/// Reflects one entry point.
pub(crate) fn entry_point(parsed: &Parsed<'_>, entry: &Entry) -> EntryPoint {
    let flow = match parsed.objection {
        Some(_) => Flow::default(),
        None => Flow::analyse(parsed, entry.function),
    };
    let unknown = parsed.objection.clone().or_else(|| flow.gave_up.clone());
    let mut effects = Effects { parsed, flow: &flow, unknown, ..Effects::new(parsed, &flow) };
    if effects.unknown.is_none() {
        effects.collect();
    }
    effects.finish(entry)
}

/// What is done to one variable.
#[derive(Debug)]
struct Touched {
    direction: Direction,
    elements: Elements,
    stopped_by: Option<String>,
}

struct Effects<'a, 'w> {
    parsed: &'a Parsed<'w>,
    flow: &'a Flow,
    described: HashMap<u32, (Class, Count)>,
    touched: BTreeMap<u32, Touched>,
    addresses: Direction,
    /// An atomic, volatile or coherent access to storage memory.
    shared: bool,
    /// Ordering wider than the workgroup, or an atomic load that is.
    ordered: bool,
    unknown: Option<String>,
}

impl<'a, 'w> Effects<'a, 'w> {
    fn new(parsed: &'a Parsed<'w>, flow: &'a Flow) -> Self {
        let descriptors =
            parsed.variables.iter().filter(|(_, v)| resource::place(v.class) == resource::Place::Descriptor);
        Effects {
            parsed,
            flow,
            described: descriptors.map(|(id, variable)| (*id, describe(parsed, variable))).collect(),
            touched: BTreeMap::new(),
            addresses: Direction::NONE,
            shared: false,
            ordered: false,
            unknown: None,
        }
    }

    fn collect(&mut self) {
        let parsed = self.parsed;
        // Outside functions only what isn't listed could do anything.
        for index in &parsed.outside {
            let inst = &parsed.instructions[*index];
            if matches!(meaning(parsed, inst), Meaning::Unlisted) {
                self.unlisted(inst);
            }
        }
        for function in &self.flow.functions {
            for inst in &parsed.instructions[parsed.functions[function].body.clone()] {
                match meaning(parsed, inst) {
                    Meaning::Touch(touch) => self.touch(inst, &touch),
                    Meaning::Barrier { scope, semantics } => {
                        self.ordered |= self.orders(inst.word(scope), &[inst.word(semantics)]);
                    }
                    Meaning::Reinterpret if parsed.types.carries(parsed.type_of(inst.word(2))).nothing() => {
                        self.escape(inst);
                    }
                    Meaning::Unlisted => self.unlisted(inst),
                    _ => {}
                }
            }
        }
    }

    fn touch(&mut self, inst: &Inst<'_>, touch: &Touch) {
        let shared = match touch.order {
            Order::Plain => false,
            Order::Memory(position) => memory_is_shared(inst, position),
            Order::Image(position) => {
                // Bits without a name may be of that kind, too.
                let unnamed = inst.word(position) & !ImageOperands::all().bits();
                let shared = ImageOperands::MAKE_TEXEL_AVAILABLE
                    | ImageOperands::MAKE_TEXEL_VISIBLE
                    | ImageOperands::NON_PRIVATE_TEXEL
                    | ImageOperands::VOLATILE_TEXEL;
                inst.word(position) & shared.bits() != 0 || unnamed != 0
            }
            Order::Atomic { scope, semantics } => {
                self.ordered |= self.orders(inst.word(scope), &semantics.map(|position| inst.word(position)));
                // Who looks without writing may wait for what somebody else writes. A value can say by itself that it is there,
                // and then needs no order.
                self.ordered |= touch.write == 0 && self.is_wide(inst.word(scope));
                true
            }
        };
        if touch.read != 0 {
            self.through(inst, inst.word(touch.read), Direction::READ, shared);
        }
        if touch.write != 0 {
            self.through(inst, inst.word(touch.write), Direction::WRITE, shared);
        }
    }

    /// An access through the pointer or image `id`.
    fn through(&mut self, inst: &Inst<'_>, id: u32, direction: Direction, shared: bool) {
        let parsed = self.parsed;
        let ty = parsed.type_of(id);
        let shared = shared || parsed.shared_anywhere;
        let places: Vec<Place> = self.flow.denotes(id).collect();
        if places.is_empty() {
            if parsed.types.is_address(ty) {
                self.place(inst, Place::ADDRESS, direction, shared);
            } else {
                self.give_up(format!("{} through %{id}, whose origin isn't known", inst.name()));
            }
        }
        // A load of an image, sampler or the like takes the handle from the descriptor and reads no memory.
        let takes_handle =
            inst.op() == Some(Op::Load) && parsed.types.carries(parsed.type_of(inst.word(2))).handles;
        for place in places {
            let handle = parsed
                .variables
                .get(&place.variable)
                .is_some_and(|variable| variable.class == StorageClass::UniformConstant as u32);
            let sampler = matches!(self.described.get(&place.variable), Some((Class::Sampler, _)));
            if !(takes_handle && handle || sampler) {
                self.place(inst, place, direction, shared);
            }
        }
    }

    /// An access to a place.
    fn place(&mut self, inst: &Inst<'_>, place: Place, direction: Direction, shared: bool) {
        let decorations = &self.parsed.decorations;
        if place.variable == Place::ADDRESS.variable {
            self.addresses |= direction;
            // Which structure a pointer points into is lost on the way: any decorated one counts.
            self.shared |= shared || !decorations.shared().is_empty();
            return;
        }
        let Some(variable) = self.parsed.variables.get(&place.variable) else {
            return self.give_up(format!("{} of %{}, which is no variable", inst.name(), place.variable));
        };
        match resource::place(variable.class) {
            resource::Place::Own | resource::Place::Elsewhere => {}
            resource::Place::Unknown => {
                let class = StorageClass::from_u32(variable.class);
                let class = class.map_or(variable.class.to_string(), |class| format!("{class:?}"));
                self.give_up(format!("{} of storage class {class}", inst.name()));
            }
            resource::Place::Descriptor => {
                let coherent = decorations.shared().contains(&place.variable)
                    || variable.holds.is_some_and(|ty| self.parsed.types.holds(ty, decorations.shared()));
                self.shared |= shared || coherent;
                let count = self.described.get(&place.variable).map(|(_, count)| *count);
                let touched = self.touched.entry(place.variable).or_insert(Touched {
                    direction: Direction::NONE,
                    elements: Elements::These(Default::default()),
                    stopped_by: None,
                });
                touched.direction |= direction;
                match (place.part, count) {
                    (Part::Element(index), _) => touched.elements.add(index),
                    (Part::Whole | Part::Any, Some(Count::One)) => touched.elements.add(0),
                    (Part::Whole | Part::Any, _) => touched.elements = Elements::All,
                }
            }
        }
    }

    /// An instruction that isn't listed.
    fn unlisted(&mut self, inst: &Inst<'_>) {
        self.ordered = true;
        for word in inst.from(1) {
            if self.parsed.types.is_address(self.parsed.type_of(*word)) {
                self.place(inst, Place::ADDRESS, Direction::BOTH, true);
            }
        }
        for place in self.flow.all_behind(inst) {
            self.stop(inst, place);
        }
    }

    /// A logical pointer that becomes a number can't be followed; Vulkan doesn't allow it.
    fn escape(&mut self, inst: &Inst<'_>) {
        let places: Vec<Place> =
            self.flow.denotes(inst.word(3)).filter(|place| *place != Place::ADDRESS).collect();
        for place in places {
            self.stop(inst, place);
        }
    }

    /// Marks a place read and written because of an instruction.
    fn stop(&mut self, inst: &Inst<'_>, place: Place) {
        self.place(inst, place, Direction::BOTH, true);
        if let Some(touched) = self.touched.get_mut(&place.variable) {
            touched.stopped_by.get_or_insert_with(|| inst.name());
        }
    }

    fn give_up(&mut self, reason: String) {
        self.unknown.get_or_insert(reason);
    }

    /// Whether semantics order anything at a scope wider than the workgroup; what is no constant counts as the widest.
    fn orders(&self, scope: u32, semantics: &[u32]) -> bool {
        let ordering = MemorySemantics::ACQUIRE
            | MemorySemantics::RELEASE
            | MemorySemantics::ACQUIRE_RELEASE
            | MemorySemantics::SEQUENTIALLY_CONSISTENT;
        let relaxed = |id: &u32| self.constant(*id).is_some_and(|semantics| semantics & ordering.bits() == 0);
        self.is_wide(scope) && !semantics.iter().all(relaxed)
    }

    /// Whether a scope is wider than the workgroup; what is no constant counts as the widest.
    fn is_wide(&self, scope: u32) -> bool {
        let narrow = [Scope::Workgroup, Scope::Subgroup, Scope::Invocation].map(|scope| Some(scope as u32));
        !narrow.contains(&self.constant(scope))
    }

    fn constant(&self, id: u32) -> Option<u32> {
        self.parsed.constants.get(&id).and_then(|value| u32::try_from(*value).ok())
    }

    fn finish(mut self, entry: &Entry) -> EntryPoint {
        let parsed = self.parsed;
        let mut bindings: BTreeMap<(u32, u32), Binding> = BTreeMap::new();
        for (id, (class, count)) in &self.described {
            let touched = self.touched.remove(id);
            if parsed.version >= LISTS_ALL && touched.is_none() && !entry.interface.contains(id) {
                continue;
            }
            let Some((set, binding)) = parsed.decorations.place(*id) else {
                if touched.is_some() {
                    self.unknown.get_or_insert(format!("descriptor %{id}, which has no set or binding"));
                }
                continue;
            };
            let touched = touched.unwrap_or(Touched {
                direction: Direction::NONE,
                elements: Elements::These(Default::default()),
                stopped_by: None,
            });
            let new = Binding {
                set,
                binding,
                class: *class,
                count: *count,
                direction: touched.direction,
                elements: touched.elements,
                stopped_by: touched.stopped_by,
            };
            bindings.entry((set, binding)).and_modify(|old| merge(old, &new)).or_insert(new);
        }
        let mut bindings: Vec<Binding> = bindings.into_values().collect();
        for binding in &mut bindings {
            if self.unknown.is_some() {
                binding.direction = Direction::BOTH;
                binding.stopped_by.clone_from(&self.unknown);
            }
            if self.unknown.is_some()
                || binding.class == Class::Unknown && binding.direction != Direction::NONE
            {
                binding.elements = Elements::All;
            }
        }
        EntryPoint {
            name: entry.name.clone(),
            stage: stage(entry.model),
            bindings,
            addresses: if self.unknown.is_some() { Direction::BOTH } else { self.addresses },
            synchronising: self.unknown.is_some() || self.shared && self.ordered,
            unknown: self.unknown,
        }
    }
}

/// Merges what another variable says of the same binding.
fn merge(old: &mut Binding, new: &Binding) {
    old.class = merge_class(old.class, new.class);
    old.count = merge_count(old.count, new.count);
    old.direction |= new.direction;
    match &new.elements {
        Elements::All => old.elements = Elements::All,
        Elements::These(elements) => elements.iter().for_each(|element| old.elements.add(*element)),
    }
    // Variables are visited in no fixed order; the answer has to have one.
    old.stopped_by = old.stopped_by.take().into_iter().chain(new.stopped_by.clone()).min();
}

/// Whether memory operands, of which a copy may have two, make the access visible to others or volatile.
fn memory_is_shared(inst: &Inst<'_>, position: usize) -> bool {
    let shared = MemoryAccess::VOLATILE
        | MemoryAccess::MAKE_POINTER_AVAILABLE
        | MemoryAccess::MAKE_POINTER_VISIBLE
        | MemoryAccess::NON_PRIVATE_POINTER;
    let with_parameter = MemoryAccess::ALIGNED
        | MemoryAccess::MAKE_POINTER_AVAILABLE
        | MemoryAccess::MAKE_POINTER_VISIBLE
        | MemoryAccess::ALIAS_SCOPE_INTEL_MASK
        | MemoryAccess::NO_ALIAS_INTEL_MASK;
    let first = inst.word(position);
    let copies = matches!(inst.op(), Some(Op::CopyMemory | Op::CopyMemorySized));
    let parameters = (first & with_parameter.bits()).count_ones() as usize;
    let second = if copies { inst.word(position + 1 + parameters) } else { 0 };
    // Bits without a name may be of that kind, too, and may bring parameters that move the second mask.
    let unnamed = !MemoryAccess::all().bits();
    (first | second) & (shared.bits() | unnamed) != 0
}

/// The stage of an execution model.
pub(crate) fn stage(model: u32) -> Stage {
    match ExecutionModel::from_u32(model) {
        Some(ExecutionModel::Vertex) => Stage::Vertex,
        Some(ExecutionModel::TessellationControl) => Stage::TessellationControl,
        Some(ExecutionModel::TessellationEvaluation) => Stage::TessellationEvaluation,
        Some(ExecutionModel::Geometry) => Stage::Geometry,
        Some(ExecutionModel::Fragment) => Stage::Fragment,
        Some(ExecutionModel::GLCompute) => Stage::Compute,
        _ => Stage::Other(model),
    }
}
