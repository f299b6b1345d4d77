//! What became of which state, remembered for the whole process.
//!
//! A stream asks for a handful of different barriers, has a handful of kinds of accesses, and goes through a few dozen
//! states. So the arithmetic of `state` is done once for each (state, barrier) and each (state, access), and looked up
//! afterwards: a tracker in the middle of a stream compares small numbers. The tables are shared by all trackers, are
//! read with plain atomic loads, and take a lock only to grow. They have a fixed size and never shrink; a process that
//! fills them (no application does; tests do) computes what does not fit, each time.

use crate::scope::Barrier;
use crate::state::{Expanded, Shape, State, Which};
use crate::tracker::Cause;
use smallvec::{SmallVec, smallvec};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

/// States that are remembered; fewer of all where an interpreter takes minutes to make tables of this size.
const STATES: usize = if cfg!(miri) { 32 } else { 256 };
/// Barriers that are remembered.
pub(crate) const BARRIERS: usize = if cfg!(miri) { 8 } else { 32 };
/// Kinds of accesses that are remembered.
pub(crate) const SHAPES: usize = if cfg!(miri) { 8 } else { 32 };

/// A state: by number, or, where the tables are full, by itself.
#[derive(Clone, Debug)]
pub(crate) enum StateRef {
    Known(u16),
    Own(Box<State>),
}

/// A state in the table.
#[derive(Debug)]
struct Interned {
    state: State,
    pending: bool,
}

impl StateRef {
    /// The state.
    pub fn get(&self) -> &State {
        match self {
            StateRef::Known(id) => &interned(*id).state,
            StateRef::Own(state) => state,
        }
    }

    /// [`State::is_pending`] of it.
    #[inline]
    pub fn is_pending(&self) -> bool {
        match self {
            StateRef::Known(id) => interned(*id).pending,
            StateRef::Own(state) => state.is_pending(),
        }
    }

    /// Its number.
    pub fn id(&self) -> Option<u16> {
        match self {
            StateRef::Known(id) => Some(*id),
            StateRef::Own(_) => None,
        }
    }

    /// Whether the two are the same state.
    #[inline]
    pub fn is(&self, other: &StateRef) -> bool {
        match (self, other) {
            (StateRef::Known(a), StateRef::Known(b)) => a == b,
            _ => self.get() == other.get(),
        }
    }

    pub fn of(state: State) -> StateRef {
        match MEMO.intern(&state) {
            Some(id) => StateRef::Known(id),
            None => StateRef::Own(Box::new(state)),
        }
    }

    /// The state of an access of this shape that no barrier followed yet.
    #[inline]
    pub fn fresh(shape: &ShapeRef) -> StateRef {
        let Some(known) = shape.id.and_then(|id| MEMO.fresh.get(id)) else {
            return StateRef::Own(Box::new(State::fresh(&shape.shape)));
        };
        match known.load(Ordering::Acquire) {
            0 => {
                let state = StateRef::of(State::fresh(&shape.shape));
                if let StateRef::Known(id) = state {
                    known.store(u32::from(id) + 1, Ordering::Release);
                }
                state
            }
            id => StateRef::Known((id - 1) as u16),
        }
    }

    /// The three states of what came before.
    pub fn prefix() -> [StateRef; 3] {
        static PREFIX: OnceLock<[StateRef; 3]> = OnceLock::new();
        PREFIX.get_or_init(|| State::prefix().map(StateRef::of)).clone()
    }

    /// What `barrier` makes of it: as [`State::advance`].
    pub fn advance(&self, barrier: &BarrierRef, which: Which) -> Option<SmallVec<[StateRef; 3]>> {
        let (StateRef::Known(state), Some(id)) = (self, barrier.id) else {
            let advanced = self.get().advance(&barrier.expanded, which, true)?;
            return Some(advanced.into_iter().map(StateRef::of).collect());
        };
        let place = &MEMO.next[id][which as usize][usize::from(*state)];
        match Packed(place.load(Ordering::Acquire)).states() {
            Some(states) if states[..] == [*state] => None,
            Some(states) => Some(states.into_iter().map(StateRef::Known).collect()),
            None => {
                let advanced = self.get().advance(&barrier.expanded, which, true);
                let advanced: Option<SmallVec<[StateRef; 3]>> =
                    advanced.map(|all| all.into_iter().map(StateRef::of).collect());
                let packed = match &advanced {
                    None => Packed::new(&[*state]),
                    Some(states) => Packed::of(states),
                };
                if let Some(packed) = packed {
                    place.store(packed.0, Ordering::Release);
                }
                advanced
            }
        }
    }

    /// As [`State::due`].
    #[inline]
    pub fn due(&self, later: &ShapeRef) -> Option<Cause> {
        const CAUSES: [Option<Cause>; 5] =
            [None, Some(Cause::Raw), Some(Cause::War), Some(Cause::Waw), Some(Cause::Prefix)];
        let (StateRef::Known(state), Some(id)) = (self, later.id) else {
            return self.get().due(&later.shape);
        };
        let place = &MEMO.due[id][usize::from(*state)];
        match place.load(Ordering::Relaxed) {
            0 => {
                let due = self.get().due(&later.shape);
                let code = CAUSES.iter().position(|c| *c == due);
                if let Some(code) = code {
                    place.store(code as u8 + 1, Ordering::Relaxed);
                }
                due
            }
            code => CAUSES[usize::from(code) - 1],
        }
    }
}

fn interned(id: u16) -> &'static Interned {
    match MEMO.states[usize::from(id)].get() {
        Some(known) => known,
        None => unreachable!("a number is given out only once its place is filled"),
    }
}

/// A barrier with its masks taken apart, and its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarrierRef {
    pub barrier: Barrier,
    pub expanded: Expanded,
    /// Its number, if it has one.
    pub id: Option<usize>,
}

impl BarrierRef {
    /// Finds or makes the record of `barrier`.
    pub fn new(barrier: Barrier) -> BarrierRef {
        let id = MEMO.find_or_add(&MEMO.barriers, |known| known.barrier == barrier, || Known::new(barrier));
        match id {
            Some(id) => match MEMO.barriers[id].get() {
                Some(known) => BarrierRef { barrier, expanded: known.expanded, id: Some(id) },
                None => BarrierRef { barrier, expanded: Expanded::new(&barrier), id: None },
            },
            None => BarrierRef { barrier, expanded: Expanded::new(&barrier), id: None },
        }
    }
}

/// A barrier in the table.
#[derive(Debug)]
struct Known {
    barrier: Barrier,
    expanded: Expanded,
}

impl Known {
    fn new(barrier: Barrier) -> Known {
        Known { barrier, expanded: Expanded::new(&barrier) }
    }
}

/// A kind of access, and its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShapeRef {
    pub shape: Shape,
    /// Its number, if it has one.
    pub id: Option<usize>,
}

impl ShapeRef {
    /// Finds or makes the record of `shape`.
    #[inline]
    pub fn new(shape: Shape) -> ShapeRef {
        ShapeRef { shape, id: MEMO.find_or_add(&MEMO.shapes, |known| *known == shape, || shape) }
    }
}

/// Up to three numbers of states in one word; 0 is none.
#[derive(Clone, Copy)]
struct Packed(u32);

impl Packed {
    fn new(states: &[u16]) -> Option<Packed> {
        let count = states.len() as u32;
        (1..=3).contains(&count).then(|| {
            Packed(states.iter().enumerate().fold(count, |all, (i, s)| all | u32::from(*s) << (2 + 10 * i)))
        })
    }

    fn of(states: &[StateRef]) -> Option<Packed> {
        let known: Option<SmallVec<[u16; 3]>> = states
            .iter()
            .map(|s| match s {
                StateRef::Known(id) => Some(*id),
                StateRef::Own(_) => None,
            })
            .collect();
        Packed::new(&known?)
    }

    fn states(self) -> Option<SmallVec<[u16; 3]>> {
        let state = |i: u32| (self.0 >> (2 + 10 * i) & 0x3ff) as u16;
        match self.0 & 3 {
            0 => None,
            1 => Some(smallvec![state(0)]),
            count => Some((0..count).map(state).collect()),
        }
    }
}

struct Memo {
    growing: Mutex<()>,
    /// No state fits any more.
    full: AtomicBool,
    states: [OnceLock<Interned>; STATES],
    barriers: [OnceLock<Known>; BARRIERS],
    shapes: [OnceLock<Shape>; SHAPES],
    /// By shape: the number of its fresh state, plus one.
    fresh: [AtomicU32; SHAPES],
    /// By barrier, reach and state.
    next: [[[AtomicU32; STATES]; 2]; BARRIERS],
    /// By shape and state: what is due, plus one.
    due: [[AtomicU8; STATES]; SHAPES],
}

static MEMO: Memo = Memo {
    growing: Mutex::new(()),
    full: AtomicBool::new(false),
    states: [const { OnceLock::new() }; STATES],
    barriers: [const { OnceLock::new() }; BARRIERS],
    shapes: [const { OnceLock::new() }; SHAPES],
    fresh: [const { AtomicU32::new(0) }; SHAPES],
    next: [const { [const { [const { AtomicU32::new(0) }; STATES] }; 2] }; BARRIERS],
    due: [const { [const { AtomicU8::new(0) }; STATES] }; SHAPES],
};

impl Memo {
    /// The place of the entry that `is` recognises in a table that fills from the front; a new one if there is none.
    #[inline]
    fn find_or_add<T>(
        &self,
        table: &[OnceLock<T>],
        is: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> Option<usize> {
        let find = || {
            for (i, place) in table.iter().enumerate() {
                match place.get() {
                    Some(known) if is(known) => return Some((i, true)),
                    Some(_) => {}
                    None => return Some((i, false)),
                }
            }
            None
        };
        if let (i, true) = find()? {
            return Some(i);
        }
        self.add(table, &is, make())
    }

    #[cold]
    fn add<T>(&self, table: &[OnceLock<T>], is: &dyn Fn(&T) -> bool, new: T) -> Option<usize> {
        let _growing = self.growing.lock().ok()?;
        // Only one grows at a time. Somebody may have added it meanwhile.
        let i = table.iter().position(|place| place.get().is_none_or(is))?;
        let _ = table[i].set(new);
        Some(i)
    }

    fn intern(&self, state: &State) -> Option<u16> {
        if self.full.load(Ordering::Relaxed) {
            return None;
        }
        let id = self.find_or_add(
            &self.states,
            |known| known.state == *state,
            || Interned { state: state.clone(), pending: state.is_pending() },
        );
        if id.is_none() {
            self.full.store(true, Ordering::Relaxed);
        }
        id.map(|id| id as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_three_states_go_into_one_word_and_come_out_again() {
        for states in [&[0u16][..], &[255], &[3, 0], &[255, 254, 253], &[0, 0, 255]] {
            let packed = Packed::new(states).unwrap();
            assert_eq!(packed.states().unwrap()[..], *states);
        }
        assert!(Packed::new(&[]).is_none() && Packed(0).states().is_none());
    }
}
