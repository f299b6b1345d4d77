//! Plans that were made before.
//!
//! To plan a stretch takes thousands of times as long as to record it, and an application that records every token anew
//! records nearly the same stretch each time. What a plan depends on is small: which accesses there are, of what kind, in
//! which operations; the barriers and looks between them; and which accesses share a byte. Bytes themselves do not matter,
//! only how the ends of the ranges lie to one another in each allocation. A cache that grows by a row a token is the same
//! stretch again.
//!
//! So a plan is kept together with everything that it was made from, the ends of all ranges as an order. A stretch that
//! is to be planned is looked up by a hash of what is cheap to hash, and then *compared* with what was found, to the
//! last access, in one pass: the hash alone decides nothing.
//!
//! What is kept is bounded, in bytes, small stretches and those without an access included. It is kept in shards by hash, each
//! with a lock and a bound of its own; a shard that has too much forgets all that it has. No lock is held while plans are
//! made, compared or freed, so that threads that record ever new stretches do not wait for each other.

use super::{Freedom, Look, Operation, Plan, Stretch};
use crate::access::{Access, Kind, MemoryId, Range};
use crate::scope::{Barrier, Flags, Stages};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many shards there are.
const SHARDS: usize = 8;

/// Bytes that one shard may keep: a segment of the greatest length, 2048 operations, takes one or two million.
const MOST: usize = 6 << 20;

/// What a plan of nothing costs, in bytes: the structures themselves, and a place in a table.
const EMPTY: usize = 512;

/// Allocations of a stretch whose plan is kept.
const MOST_MEMORIES: usize = 1024;

/// An access without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    kind: Kind,
    stages: Stages,
    flags: Flags,
    /// Its allocation, by the order in which the stretch comes to them.
    memory: Option<u32>,
}

/// How an end of a range lies to the one before it in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// In another allocation.
    Apart,
    /// At the same byte.
    Same,
    /// At a later one.
    Later,
}

/// A plan and what it was made from.
#[derive(Debug)]
struct Known {
    freedom: Freedom,
    operations: Vec<Operation>,
    asked: Vec<(usize, Barrier)>,
    looks: Vec<Look>,
    shapes: Vec<Shape>,
    /// The ends of all ranges, sorted: twice the number of the access, and one more where it is the range's end.
    order: Vec<(u32, Step)>,
    plan: Arc<Plan>,
}

/// Allocations by the order in which they are met.
#[derive(Debug, Default)]
struct Memories(Vec<MemoryId>);

impl Memories {
    /// The number of an allocation; a new one where it was not met before. `expected` is looked at first.
    fn number(&mut self, memory: MemoryId, expected: Option<u32>) -> Option<u32> {
        if let Some(expected) = expected.filter(|e| self.0.get(*e as usize) == Some(&memory)) {
            return Some(expected);
        }
        let known = self.0.iter().position(|m| *m == memory);
        let number = known.unwrap_or_else(|| {
            self.0.push(memory);
            self.0.len() - 1
        });
        (number < MOST_MEMORIES).then_some(number as u32)
    }
}

fn shape(access: &Access, memory: Option<u32>) -> Shape {
    Shape { kind: access.kind, stages: access.stages, flags: access.flags, memory }
}

/// Where an end of a range is, by its number in [`Known::order`].
fn end(stretch: &Stretch, number: u32) -> u64 {
    match stretch.accesses[number as usize / 2].range {
        Range::Bytes { start, end, .. } => {
            if number.is_multiple_of(2) {
                start
            } else {
                end
            }
        }
        Range::Anywhere => 0,
    }
}

impl Known {
    /// `None` for a stretch with more allocations than are counted.
    fn new(stretch: &Stretch, freedom: Freedom, plan: Arc<Plan>) -> Option<Known> {
        let mut memories = Memories::default();
        let mut shapes = Vec::with_capacity(stretch.accesses.len());
        for access in &stretch.accesses {
            let memory = match access.range {
                Range::Anywhere => None,
                Range::Bytes { memory, .. } => Some(memories.number(memory, None)?),
            };
            shapes.push(shape(access, memory));
        }
        let placed = |n: &u32| shapes[*n as usize / 2].memory.map(|memory| (memory, end(stretch, *n), *n));
        let mut ends: Vec<(u32, u64, u32)> =
            (0..2 * shapes.len() as u32).filter_map(|n| placed(&n)).collect();
        ends.sort_unstable();
        let mut before: Option<(u32, u64)> = None;
        let order = ends.into_iter().map(|(memory, byte, number)| {
            let step = match before.replace((memory, byte)) {
                Some((m, b)) if m == memory && b == byte => Step::Same,
                Some((m, _)) if m == memory => Step::Later,
                _ => Step::Apart,
            };
            (number, step)
        });
        Some(Known {
            freedom,
            operations: stretch.operations.clone(),
            asked: stretch.asked.clone(),
            looks: stretch.looks.clone(),
            order: order.collect(),
            shapes,
            plan,
        })
    }

    /// Whether the plan is one for this stretch.
    fn is_for(&self, stretch: &Stretch, freedom: Freedom) -> bool {
        self.freedom == freedom
            && self.shapes.len() == stretch.accesses.len()
            && self.operations == stretch.operations
            && self.looks == stretch.looks
            && self.asked == stretch.asked
            && self.has_shapes(stretch)
            && self.has_order(stretch)
    }

    fn has_shapes(&self, stretch: &Stretch) -> bool {
        let mut memories = Memories::default();
        self.shapes.iter().zip(&stretch.accesses).all(|(known, access)| {
            let memory = match access.range {
                Range::Anywhere => None,
                // Each allocation must be met where it was met before, and no other there.
                Range::Bytes { memory, .. } => match memories.number(memory, known.memory) {
                    None => return false,
                    number => number,
                },
            };
            *known == shape(access, memory)
        })
    }

    /// What keeping it costs, in bytes.
    fn size(&self) -> usize {
        EMPTY
            + size_of_val(&self.operations[..])
            + size_of_val(&self.asked[..])
            + size_of_val(&self.looks[..])
            + size_of_val(&self.shapes[..])
            + size_of_val(&self.order[..])
            + size_of_val(&self.plan.issue[..])
            + size_of_val(&self.plan.emissions[..])
    }

    /// Whether the ends of the ranges lie to one another as they did.
    fn has_order(&self, stretch: &Stretch) -> bool {
        let mut before = 0;
        self.order.iter().all(|(number, step)| {
            let byte = end(stretch, *number);
            let last = std::mem::replace(&mut before, byte);
            match step {
                Step::Apart => true,
                Step::Same => last == byte,
                Step::Later => last < byte,
            }
        })
    }
}

/// Takes a word into a hash.
fn mix(sum: u64, word: u64) -> u64 {
    (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What of a stretch is cheap to hash.
fn hash(stretch: &Stretch, freedom: Freedom) -> u64 {
    let operations = stretch.operations.iter().fold(freedom as u64, |sum, operation| {
        mix(sum, (operation.accesses.1 as u64) << 1 | u64::from(operation.fixed))
    });
    let asked = stretch.asked.iter().fold(operations, |sum, (gap, barrier)| {
        mix(
            sum,
            *gap as u64 ^ barrier.src.flags.bits().rotate_left(20) ^ barrier.dst.flags.bits().rotate_left(40),
        )
    });
    stretch.accesses.iter().fold(asked, |sum, access| mix(sum, access.flags.bits()))
}

#[derive(Debug, Default)]
struct Plans {
    by_hash: HashMap<u64, Vec<Arc<Known>>>,
    size: usize,
}

/// One of the shards.
struct Shard(Mutex<Option<Plans>>);

static SHARDS_OF_PLANS: [Shard; SHARDS] = [const { Shard(Mutex::new(None)) }; SHARDS];

impl Shard {
    fn of(hash: u64) -> &'static Shard {
        &SHARDS_OF_PLANS[(hash >> 32) as usize % SHARDS]
    }

    fn with<R>(&self, f: impl FnOnce(&mut Plans) -> R) -> R {
        f(self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
    }

    /// The plans that may be the one.
    fn alike(&self, hash: u64) -> Vec<Arc<Known>> {
        self.with(|plans| plans.by_hash.get(&hash).cloned()).unwrap_or_default()
    }

    /// Keeps a plan, unless it alone is too much. What is forgotten for it is returned, to be freed when the lock is not held.
    fn keep(&self, hash: u64, known: Known) -> Option<Plans> {
        let size = known.size();
        if size > MOST {
            return None;
        }
        self.with(|plans| {
            let forgotten = (plans.size + size > MOST).then(|| std::mem::take(plans));
            plans.size += size;
            plans.by_hash.entry(hash).or_default().push(Arc::new(known));
            forgotten
        })
    }
}

/// Forgets all plans, for those who count bytes.
pub(crate) fn forget() {
    for shard in &SHARDS_OF_PLANS {
        drop(shard.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// The plan of a stretch, made now or before. It does not say what the pairs that force its barriers touch.
pub(super) fn plan(stretch: &Stretch, freedom: Freedom) -> Arc<Plan> {
    let hash = hash(stretch, freedom);
    let shard = Shard::of(hash);
    if let Some(known) = shard.alike(hash).iter().find(|known| known.is_for(stretch, freedom)) {
        return known.plan.clone();
    }
    let plan = Arc::new(stretch.decide(freedom, false));
    if let Some(known) = Known::new(stretch, freedom, plan.clone()) {
        drop(shard.keep(hash, known));
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Scope;

    const STEP: u64 = 256;

    fn barrier() -> Barrier {
        let scope = Scope { stages: Stages::COMPUTE_SHADER, flags: Flags::SHADER_READ | Flags::SHADER_WRITE };
        Barrier { src: scope, dst: scope }
    }

    /// Writes one row of a cache, then reads the `rows` rows before it and writes a result; `layers` times.
    fn token(memory: u64, rows: u64, layers: u64) -> Stretch {
        let mut stretch = Stretch::new();
        for layer in 0..layers {
            let bytes = |memory, from: u64, to: u64| Range::Bytes {
                memory: MemoryId(memory),
                start: (layer * 1000 + from) * STEP,
                end: (layer * 1000 + to) * STEP,
            };
            let row = bytes(memory, rows, rows + 1);
            stretch.operation(&[Access::shader_write(row)], false);
            stretch.asked(barrier());
            let (all, result) = (bytes(memory, 0, rows + 1), bytes(memory + 1, 0, 1));
            stretch.operation(&[Access::shader_read(all), Access::shader_write(result)], false);
            stretch.asked(barrier());
        }
        stretch
    }

    fn known(stretch: &Stretch) -> Known {
        Known::new(stretch, Freedom::InOrder, Arc::new(stretch.decide(Freedom::InOrder, false))).unwrap()
    }

    #[test]
    fn a_stretch_without_an_access_is_not_kept_for_nothing() {
        let mut stretch = Stretch::new();
        let empty = known(&stretch).size();
        assert!(empty > 0);
        stretch.asked(barrier());
        assert!(known(&stretch).size() > empty);
    }

    #[test]
    fn a_stretch_whose_ranges_have_moved_and_still_meet_in_the_same_way_has_the_same_plan() {
        let first = known(&token(1, 5, 4));
        for (memory, rows) in [(1, 5), (1, 6), (1, 900), (70, 9)] {
            let again = token(memory, rows, 4);
            assert!(first.is_for(&again, Freedom::InOrder), "{memory} {rows}");
            assert_eq!(*first.plan, again.decide(Freedom::InOrder, false));
        }
    }

    #[test]
    fn whatever_a_plan_depends_on_makes_another_stretch_of_it() {
        let first = known(&token(1, 5, 4));
        assert!(!first.is_for(&token(1, 5, 4), Freedom::AnyOrder), "another freedom");
        assert!(!first.is_for(&token(1, 5, 5), Freedom::InOrder), "more of it");
        // With no rows before it, what is read begins where the row does.
        assert!(!first.is_for(&token(1, 0, 4), Freedom::InOrder), "ends that fall together");
        type Change = fn(&mut Stretch);
        let changes: [(&str, Change); 9] = [
            ("a range that no longer meets another", |s| {
                s.accesses[0].range =
                    Range::Bytes { memory: MemoryId(1), start: 900 * STEP, end: 901 * STEP };
            }),
            ("another allocation", |s| {
                s.accesses[0].range = Range::Bytes { memory: MemoryId(2), start: 5 * STEP, end: 6 * STEP };
            }),
            ("a third allocation", |s| {
                s.accesses[0].range = Range::Bytes { memory: MemoryId(9), start: 5 * STEP, end: 6 * STEP };
            }),
            ("somewhere", |s| s.accesses[0].range = Range::Anywhere),
            ("a read", |s| s.accesses[0].kind = Kind::Read),
            ("another stage", |s| s.accesses[0].stages = Stages::COPY),
            ("an operation that stays", |s| s.operations[1].fixed = true),
            ("another barrier", |s| s.asked[0].1.dst.stages = Stages::ALL_TRANSFER),
            ("a look", |s| s.looks.push(Look { gap: 2, stages: Stages::EVERY, waits: Stages::empty() })),
        ];
        for (what, change) in changes {
            let mut other = token(1, 5, 4);
            change(&mut other);
            assert!(!first.is_for(&other, Freedom::InOrder), "{what}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let shard = Shard(Mutex::new(None));
        let (mut added, mut forgotten) = (0, 0);
        for hash in 0..80 {
            let one = known(&token(1, 5, 200));
            added += one.size();
            forgotten += usize::from(shard.keep(hash, one).is_some());
            assert!(shard.with(|plans| plans.size) <= MOST);
        }
        assert!(added > MOST && forgotten == added / MOST, "{added} bytes, forgotten {forgotten} times");
        assert!(shard.alike(0).is_empty() && shard.alike(79).len() == 1, "the last ones are kept");
    }

    #[test]
    fn of_two_stretches_with_one_hash_each_gets_its_own_plan() {
        // The hash knows nothing of bytes, so that these two have the same.
        let meets = token(501, 5, 3);
        let mut free = token(501, 5, 3);
        for access in free.accesses.iter_mut().filter(|a| a.kind == Kind::Read) {
            access.range = Range::Bytes { memory: MemoryId(509), start: 0, end: STEP };
        }
        assert_eq!(hash(&meets, Freedom::InOrder), hash(&free, Freedom::InOrder));
        for _ in 0..2 {
            assert_eq!(*plan(&meets, Freedom::InOrder), meets.decide(Freedom::InOrder, false));
            assert_eq!(*plan(&free, Freedom::InOrder), free.decide(Freedom::InOrder, false));
        }
        assert!(
            plan(&meets, Freedom::InOrder).emissions.len() > plan(&free, Freedom::InOrder).emissions.len()
        );
        assert!(
            Arc::ptr_eq(&plan(&meets, Freedom::InOrder), &plan(&token(507, 8, 3), Freedom::InOrder)),
            "nothing is planned twice"
        );
    }

    /// An access in a small world: memory, first byte, bytes, kind of access.
    type Small = (u64, u64, u64, u8);

    /// A stretch of operations with a barrier after some of them; `moved` is added to every byte.
    fn small(operations: &[(Vec<Small>, u8)], moved: u64) -> Stretch {
        let mut stretch = Stretch::new();
        for (accesses, then) in operations {
            let accesses: Vec<Access> = accesses
                .iter()
                .map(|(memory, start, bytes, kind)| {
                    let start = moved + start;
                    let range = Range::Bytes { memory: MemoryId(*memory), start, end: start + bytes };
                    match kind % 8 {
                        0 => Access::shader_write(Range::Anywhere),
                        1..4 => Access::shader_write(range),
                        _ => Access::shader_read(range),
                    }
                })
                .collect();
            stretch.operation(&accesses, then % 16 == 9);
            match then % 4 {
                0 => {}
                1 if then % 16 == 5 => stretch.flush(),
                _ => stretch.asked(barrier()),
            }
        }
        stretch
    }

    proptest::proptest! {
        #[test]
        fn what_is_recalled_is_what_would_be_planned(
            operations in proptest::collection::vec(
                (proptest::collection::vec((0u64..2, 0u64..4, 1u64..3, 0u8..32), 1..3), 0u8..32), 0..6),
            moved in 0u64..50,
        ) {
            for freedom in [Freedom::InOrder, Freedom::AnyOrder] {
                for moved in [0, moved] {
                    let stretch = small(&operations, moved);
                    proptest::prop_assert_eq!(&*plan(&stretch, freedom), &stretch.decide(freedom, false));
                }
            }
        }
    }
}
