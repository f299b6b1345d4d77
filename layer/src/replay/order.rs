//! The order in which a replay issues things: any order that the emitted barriers' scopes allow.
//!
//! A barrier keeps its place only against operations that have a stage in its scopes. One from transfer to transfer says
//! nothing of two dispatches on its two sides, and a driver may run the second of them first; so may a replay. Barriers
//! keep their places among themselves: chains are made of several.
//!
//! Without a shuffle and without slices the order is the recorded one. With slices, everything that is ready at a time is
//! issued in turn, piece by piece. `reverse` turns round whatever two neighbours the barriers leave free, and a seed
//! draws.

use zinc_hazard::{Barrier, Side, Stages};
use zinc_settings::Shuffle;

/// One thing to issue.
#[derive(Clone, Copy, Debug)]
pub enum Item {
    /// An operation with accesses at these stages, in this many pieces.
    Operation(Stages, usize),
    /// An operation across which nothing moves.
    Wall,
    /// A barrier.
    Barrier(Barrier),
}

/// What to issue next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Turn {
    /// A piece, counted from 0, of the item of this number.
    Piece(usize, usize),
    /// The barrier that is the item of this number.
    Barrier(usize),
}

/// An item that keeps its place among its like, with what it waits for.
struct Fence {
    item: usize,
    /// Operations that must be issued before it and are not yet.
    waits: Vec<usize>,
}

struct Order<'a> {
    items: &'a [Item],
    fences: Vec<Fence>,
    /// Fences issued.
    passed: usize,
    /// For each item how many fences must be issued before it; `None` for fences and for what was issued.
    after: Vec<Option<usize>>,
    turns: Vec<Turn>,
    interleave: bool,
}

impl Order<'_> {
    fn new(items: &[Item], interleave: bool) -> Order<'_> {
        let mut order =
            Order { items, fences: Vec::new(), passed: 0, after: Vec::new(), turns: Vec::new(), interleave };
        for (number, item) in items.iter().enumerate() {
            let after = match item {
                Item::Operation(stages, _) => {
                    let binds = |fence: &Fence| order.scope(fence.item, Side::Second).intersects(*stages);
                    Some(order.fences.iter().rposition(binds).map_or(0, |last| last + 1))
                }
                Item::Wall | Item::Barrier(_) => {
                    let scope = order.scope(number, Side::First);
                    let bound =
                        |other: &usize| matches!(items[*other], Item::Operation(s, _) if s.intersects(scope));
                    order.fences.push(Fence { item: number, waits: (0..number).filter(bound).collect() });
                    None
                }
            };
            order.after.push(after);
        }
        order
    }

    /// The stages of operations that a fence keeps on one side of it.
    fn scope(&self, fence: usize, side: Side) -> Stages {
        match (&self.items[fence], side) {
            (Item::Barrier(barrier), Side::First) => barrier.src.stages.execution(side),
            (Item::Barrier(barrier), Side::Second) => barrier.dst.stages.execution(side),
            _ => Stages::all(),
        }
    }

    /// Operations that may be issued now, as recorded.
    fn ready(&self) -> Vec<usize> {
        let ready = |item: &usize| self.after[*item].is_some_and(|after| after <= self.passed);
        (0..self.items.len()).filter(ready).collect()
    }

    fn fence_is_ready(&mut self) -> bool {
        let (after, passed) = (&self.after, self.passed);
        self.fences.get_mut(passed).is_some_and(|fence| {
            fence.waits.retain(|item| after[*item].is_some());
            fence.waits.is_empty()
        })
    }

    fn pass_fence(&mut self) {
        let item = self.fences[self.passed].item;
        self.turns.push(match self.items[item] {
            Item::Barrier(_) => Turn::Barrier(item),
            _ => Turn::Piece(item, 0),
        });
        self.passed += 1;
    }

    /// Issues operations, as they stand or piece by piece.
    fn issue(&mut self, group: &[usize]) {
        let pieces = |item: usize| match self.items[item] {
            Item::Operation(_, pieces) => pieces,
            _ => 1,
        };
        let most = group.iter().map(|item| pieces(*item)).max().unwrap_or(0);
        if self.interleave {
            for piece in 0..most {
                let left = group.iter().filter(|item| piece < pieces(**item));
                self.turns.extend(left.map(|item| Turn::Piece(*item, piece)));
            }
        } else {
            let all = group.iter().flat_map(|item| (0..pieces(*item)).map(|piece| Turn::Piece(*item, piece)));
            self.turns.extend(all);
        }
        group.iter().for_each(|item| self.after[*item] = None);
    }
}

/// The turns for `items`; with `interleave`, pieces of what nothing orders are issued in turn.
pub fn order(items: &[Item], shuffle: Shuffle, interleave: bool, random: &mut fastrand::Rng) -> Vec<Turn> {
    let mut order = Order::new(items, interleave);
    if shuffle == Shuffle::Off && !interleave {
        for (number, item) in items.iter().enumerate() {
            match item {
                Item::Operation(..) => order.issue(&[number]),
                Item::Wall => order.turns.push(Turn::Piece(number, 0)),
                Item::Barrier(_) => order.turns.push(Turn::Barrier(number)),
            }
        }
        return order.turns;
    }
    loop {
        let mut ready = order.ready();
        let fence_ready = order.fence_is_ready();
        if ready.is_empty() && order.passed == order.fences.len() {
            return order.turns;
        }
        match shuffle {
            Shuffle::Off => {}
            Shuffle::Reverse => {
                ready.reverse();
                if let Some(fence) = order.fences.get(order.passed) {
                    // What was recorded behind the barrier comes as early as it may, what was before it as late.
                    let early = ready.iter().any(|item| *item > fence.item);
                    ready.retain(|item| *item > fence.item || !early && fence.waits.contains(item));
                }
            }
            Shuffle::Seed(_) => {
                random.shuffle(&mut ready);
                let some = random.usize(0..=ready.len());
                ready.truncate(if fence_ready { some } else { some.max(1) });
            }
        }
        match ready.is_empty() {
            false => order.issue(&ready),
            true => order.pass_fence(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_hazard::{Flags, Scope};

    const COMPUTE: Item = Item::Operation(Stages::COMPUTE_SHADER, 1);
    const COPY: Item = Item::Operation(Stages::COPY, 1);

    fn barrier(src: Stages, dst: Stages) -> Item {
        let scope = |stages| Scope { stages, flags: Flags::empty() };
        Item::Barrier(Barrier { src: scope(src), dst: scope(dst) })
    }

    fn of(items: &[Item], shuffle: Shuffle) -> Vec<usize> {
        let turns = order(items, shuffle, false, &mut fastrand::Rng::with_seed(1));
        turns
            .into_iter()
            .map(|turn| match turn {
                Turn::Piece(item, _) | Turn::Barrier(item) => item,
            })
            .collect()
    }

    #[test]
    fn reverse_turns_round_what_stands_between_two_full_barriers_and_nothing_else() {
        let full = Item::Barrier(Barrier::FULL);
        let items = [COMPUTE, COPY, full, COMPUTE, COMPUTE, COPY, full, COPY];
        assert_eq!(of(&items, Shuffle::Off), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(of(&items, Shuffle::Reverse), [1, 0, 2, 5, 4, 3, 6, 7]);
    }

    #[test]
    fn an_operation_crosses_a_barrier_that_does_not_name_its_stage() {
        let transfers = barrier(Stages::ALL_TRANSFER, Stages::ALL_TRANSFER);
        assert_eq!(of(&[COMPUTE, transfers, COMPUTE], Shuffle::Reverse), [2, 1, 0]);
        assert_eq!(of(&[COMPUTE, COPY, transfers, COPY], Shuffle::Reverse), [1, 2, 3, 0]);
        let into = barrier(Stages::ALL_TRANSFER, Stages::COMPUTE_SHADER);
        assert_eq!(of(&[COMPUTE, into, COMPUTE], Shuffle::Reverse), [1, 2, 0], "only the second scope holds");
        let out_of = barrier(Stages::COMPUTE_SHADER, Stages::ALL_TRANSFER);
        assert_eq!(of(&[COMPUTE, out_of, COMPUTE], Shuffle::Reverse), [2, 0, 1], "only the first one");
    }

    #[test]
    fn two_barriers_make_a_chain_that_holds() {
        let there = barrier(Stages::COMPUTE_SHADER, Stages::ALL_TRANSFER);
        let back = barrier(Stages::ALL_TRANSFER, Stages::COMPUTE_SHADER);
        for shuffle in (0..50).map(Shuffle::Seed).chain([Shuffle::Reverse]) {
            assert_eq!(of(&[COMPUTE, there, back, COMPUTE], shuffle), [0, 1, 2, 3]);
        }
    }

    #[test]
    fn every_seed_gives_all_items_once_and_none_on_the_wrong_side_of_its_barrier() {
        let mut random = fastrand::Rng::with_seed(5);
        // An interpreter takes a thousand times as long for each.
        for _ in 0..if cfg!(miri) { 5 } else { 300 } {
            let stages = [Stages::COMPUTE_SHADER, Stages::COPY, Stages::DRAW_INDIRECT, Stages::CLEAR];
            let pick = |random: &mut fastrand::Rng| stages[random.usize(0..stages.len())];
            let items: Vec<Item> = (0..random.usize(0..12))
                .map(|_| match random.u8(0..8) {
                    0..4 => Item::Operation(pick(&mut random), random.usize(1..4)),
                    4 => Item::Wall,
                    _ => barrier(pick(&mut random), pick(&mut random)),
                })
                .collect();
            for shuffle in [Shuffle::Off, Shuffle::Reverse, Shuffle::Seed(3)] {
                for interleave in [false, true] {
                    check(&items, &order(&items, shuffle, interleave, &mut random));
                }
            }
        }
    }

    fn check(items: &[Item], turns: &[Turn]) {
        let mut sorted = turns.to_vec();
        sorted.sort();
        sorted.dedup();
        let pieces = |item: &Item| if let Item::Operation(_, pieces) = item { *pieces } else { 1 };
        assert_eq!((sorted.len(), turns.len()), (turns.len(), items.iter().map(pieces).sum()));
        let places = |number: usize| {
            turns.iter().enumerate().filter_map(move |(place, turn)| {
                matches!(turn, Turn::Piece(n, _) | Turn::Barrier(n) if *n == number).then_some(place)
            })
        };
        for (i, earlier) in items.iter().enumerate() {
            for (j, later) in items.iter().enumerate().skip(i + 1) {
                let kept = match (earlier, later) {
                    (Item::Operation(..), Item::Operation(..)) => false,
                    (Item::Operation(s, _), Item::Barrier(b)) => {
                        s.intersects(b.src.stages.execution(Side::First))
                    }
                    (Item::Barrier(b), Item::Operation(s, _)) => {
                        s.intersects(b.dst.stages.execution(Side::Second))
                    }
                    _ => true,
                };
                assert!(!kept || places(i).max() < places(j).min(), "{i} and {j} of {items:?}: {turns:?}");
            }
        }
    }

    #[test]
    fn pieces_of_what_nothing_orders_come_in_turn() {
        let items = [
            Item::Operation(Stages::COMPUTE_SHADER, 2),
            Item::Operation(Stages::COMPUTE_SHADER, 3),
            Item::Barrier(Barrier::FULL),
            Item::Operation(Stages::COMPUTE_SHADER, 2),
        ];
        let turns = order(&items, Shuffle::Off, true, &mut fastrand::Rng::with_seed(1));
        use Turn::{Barrier as B, Piece as P};
        assert_eq!(turns, [P(0, 0), P(1, 0), P(0, 1), P(1, 1), P(1, 2), B(2), P(3, 0), P(3, 1)]);
    }
}
