//! Records what is submitted in place of the application's command buffers.
//!
//! Without the delay the application's operations are issued with the barriers that the policy issued, in another order or
//! in pieces: what the device makes of that is the device's business. With the delay the device is given no choice: full
//! barriers stand between all steps, and the books of [`Delay`] alone decide what an operation sees. That makes a missing
//! barrier show on a device that runs everything in order, and makes every run of it the same.
//!
//! An operation whose writes are delayed is issued like this:
//!
//! 1. Writes that it may see are shown, and what it is about to overwrite is copied aside.
//! 2. Bytes that it writes and does not read are filled with a pattern, and it is executed; then, over the opposite
//!    pattern and with everything else as it was, once more. Where both patterns survived, nothing was written: a shader
//!    that writes half a range must not have the other half delayed with it.
//! 3. What was written is kept aside with a mask of its bytes, and the pattern is put in its place.
//!
//! Bytes that it also reads can't be filled. There, what has changed is what was written.

use super::delay::{self, Bytes, Delay, Shown};
use super::kernel::{Kernel, Mode, POISON, Pools};
use super::memory::{Alias, Scratch, Slot};
use super::order::{Item, Turn, order};
use super::slice;
use crate::bindings::{self, Bindings, Grid};
use crate::emit;
use crate::journal::Journal;
use crate::next::Next;
use crate::script::Action;
use ash::prelude::VkResult;
use ash::vk;
use std::collections::HashMap;
use zinc_hazard::model::issued::Issued;
use zinc_hazard::{Access, Barrier, Kind, MemoryId, Nature, Range, Scope, Stages};
use zinc_report::Replayed;
use zinc_settings::Shuffle;

/// A recording that can be replayed.
#[derive(Clone, Copy)]
pub struct Recording<'a> {
    /// Its operations and barriers, in the order in which they were issued.
    pub journal: &'a Journal,
    /// How to issue each operation.
    pub actions: &'a [Action],
}

/// Which instruments are in force.
#[derive(Clone, Copy, Debug)]
pub struct Instruments {
    /// The order.
    pub shuffle: Shuffle,
    /// Writes are delayed.
    pub delay: bool,
    /// Dispatches are cut.
    pub slice: bool,
}

/// An operation and its pieces.
struct Operation<'a> {
    action: &'a Action,
    accesses: &'a [Access],
    nature: Nature,
    pieces: Vec<Grid>,
}

impl Operation<'_> {
    /// Whether all that it touches is known.
    fn is_known(&self) -> bool {
        self.accesses.iter().all(|access| {
            let single = access.stages.bits().is_power_of_two() && access.flags.bits().is_power_of_two();
            single && matches!(access.range, Range::Bytes { end, .. } if end != u64::MAX)
        }) && self.nature == Nature::Movable
    }

    /// Whether what it writes can be taken away from everybody.
    fn may_wait(&self) -> bool {
        match self.action {
            Action::Dispatch(_, _, traits) => traits.is_some_and(|t| !t.atomics && !t.writes_images),
            Action::Transfer(_) => true,
        }
    }
}

/// A command buffer of the layer's, being recorded.
pub struct Player<'a> {
    /// The device's functions below the layer.
    pub vk: &'a ash::Device,
    /// The same, as the rest of the layer has them.
    pub next: &'a Next,
    /// The kernel; only where writes are delayed.
    pub kernel: Option<&'a Kernel>,
    /// The application's memory.
    pub aliases: &'a HashMap<MemoryId, Alias>,
    /// The queue's delayed writes.
    pub delay: &'a mut Delay<Slot>,
    /// Their memory.
    pub scratch: &'a mut Scratch,
    /// Sets for the kernel.
    pub pools: &'a mut Pools,
    /// The command buffer.
    pub buffer: vk::CommandBuffer,
    /// What was done.
    pub counts: &'a mut Replayed,
    /// Which instruments are in force.
    pub instruments: Instruments,
    /// The source of orders.
    pub random: &'a mut fastrand::Rng,
}

impl Player<'_> {
    /// Plays recordings, one behind the other.
    ///
    /// # Errors
    ///
    /// Those of the device; then the command buffer is of no use.
    ///
    /// # Safety
    ///
    /// The command buffer must be recording, and everything that the recordings refer to must live until it was executed.
    pub unsafe fn play(&mut self, recordings: &[Recording<'_>]) -> VkResult<()> {
        let (mut items, mut operations) = (Vec::new(), Vec::new());
        for recording in recordings {
            let of: Vec<(Nature, &[Access])> = recording.journal.operations().collect();
            for issued in &recording.journal.issued {
                match issued {
                    Issued::Emitted(barrier) => {
                        items.push(Item::Barrier(*barrier));
                        operations.push(None);
                    }
                    Issued::Operation(number) => {
                        let ((nature, accesses), action) = (of[*number], &recording.actions[*number]);
                        let operation =
                            Operation { action, accesses, nature, pieces: self.pieces(action, accesses) };
                        items.push(match nature {
                            Nature::Movable => {
                                Item::Operation(stages(accesses), operation.pieces.len().max(1))
                            }
                            Nature::Stays | Nature::Synchronises | Nature::Stamps { .. } => Item::Wall,
                        });
                        operations.push(Some(operation));
                    }
                }
            }
        }
        for turn in order(&items, self.instruments.shuffle, self.instruments.slice, self.random) {
            // SAFETY: by the caller.
            unsafe {
                match turn {
                    Turn::Piece(item, piece) => {
                        let Some(operation) = &operations[item] else { continue };
                        // What stays where it is stays whole.
                        let whole = matches!(items[item], Item::Wall);
                        let grid = if whole { None } else { operation.pieces.get(piece).copied() };
                        self.operation(operation, grid)?;
                    }
                    Turn::Barrier(item) => {
                        let Item::Barrier(barrier) = items[item] else { continue };
                        match self.instruments.delay {
                            true => self.delay.barrier(&barrier),
                            false => emit::barrier(self.next, self.buffer, emit::plain(barrier)),
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn pieces(&mut self, action: &Action, accesses: &[Access]) -> Vec<Grid> {
        let Action::Dispatch(_, grid, traits) = action else { return Vec::new() };
        if !self.instruments.slice {
            return vec![*grid];
        }
        // The pieces of one dispatch may see each other's writes, and a delay would hide them.
        let reads_back = || delay::written(accesses).is_none_or(|w| w.iter().any(|(_, read)| *read));
        let pieces = match self.instruments.delay && reads_back() {
            true => vec![*grid],
            false => slice::cut(*grid, *traits),
        };
        match pieces.len() {
            0 | 1 => self.counts.whole += 1,
            _ => self.counts.cut += 1,
        }
        pieces
    }

    /// # Safety
    ///
    /// As for [`Player::play`].
    unsafe fn operation(&mut self, operation: &Operation<'_>, grid: Option<Grid>) -> VkResult<()> {
        // SAFETY: by the caller.
        unsafe {
            if !self.instruments.delay {
                self.issue(operation.action, grid);
                return Ok(());
            }
            if !operation.is_known() {
                self.flush()?;
                self.counts.not_delayed += 1;
                self.issue(operation.action, grid);
                self.full();
                return Ok(());
            }
            let seen = self.delay.before(operation.accesses);
            for (slot, bytes, _) in &seen {
                self.masks(Mode::Show, *bytes, slot)?;
            }
            match self.room(operation) {
                Some(rows) => self.delayed(operation, grid, &rows)?,
                None => {
                    self.counts.not_delayed += 1;
                    self.issue(operation.action, grid);
                    self.full();
                }
            }
            for (slot, bytes, shown) in seen {
                match shown {
                    Shown::ForGood => self.scratch.give(slot),
                    Shown::ForNow => self.masks(Mode::Hide, bytes, &slot)?,
                }
            }
            Ok(())
        }
    }

    /// Room for all that an operation writes, and whether it reads it too; `None` where its writes can't be delayed.
    unsafe fn room(&mut self, operation: &Operation<'_>) -> Option<Vec<(Bytes, bool, Slot, Alias)>> {
        let written = delay::written(operation.accesses).filter(|_| operation.may_wait())?;
        let mut rows = Vec::new();
        for (bytes, read) in written {
            let row = self.aliases.get(&bytes.memory).and_then(|alias| {
                let (start, end) = (bytes.start / 4 * 4, bytes.end.next_multiple_of(4).min(alias.size));
                let bytes = Bytes { start, end: end.max(start), ..bytes };
                // SAFETY: the device is alive and has the types of its allocations.
                let slot = unsafe { self.scratch.take(self.vk, bytes, alias.memory_type) }?;
                Some((bytes, read, slot, *alias))
            });
            match row {
                Some(row) => rows.push(row),
                None => {
                    rows.into_iter().for_each(|(_, _, slot, _): (_, _, Slot, _)| self.scratch.give(slot));
                    return None;
                }
            }
        }
        Some(rows)
    }

    /// # Safety
    ///
    /// As for [`Player::play`].
    unsafe fn delayed(
        &mut self,
        operation: &Operation<'_>,
        grid: Option<Grid>,
        rows: &[(Bytes, bool, Slot, Alias)],
    ) -> VkResult<()> {
        let copy = |player: &Self, bytes: &Bytes, alias: &Alias, slot: &Slot, row: u64, back: bool| {
            let size = bytes.end - bytes.start;
            let (real, kept) = ((alias.buffer, bytes.start), (slot.buffer, slot.row(row)));
            let (from, to) = if back { (kept, real) } else { (real, kept) };
            let region = vk::BufferCopy { src_offset: from.1, dst_offset: to.1, size };
            // SAFETY: by the caller; the bytes lie in both buffers.
            unsafe { player.vk.cmd_copy_buffer(player.buffer, from.0, to.0, &[region]) };
        };
        let fill = |player: &Self, bytes: &Bytes, alias: &Alias, word: u32| {
            let size = bytes.end - bytes.start;
            // SAFETY: as above; a fill of no bytes would be invalid.
            unsafe { player.vk.cmd_fill_buffer(player.buffer, alias.buffer, bytes.start, size, word) };
        };
        let rows: Vec<_> = rows.iter().filter(|(bytes, ..)| bytes.end > bytes.start).collect();
        // SAFETY: by the caller.
        unsafe {
            rows.iter().for_each(|(bytes, _, slot, alias)| copy(self, bytes, alias, slot, 0, false));
            self.full();
            let blind: Vec<_> = rows.iter().filter(|(_, read, ..)| !read).collect();
            if !blind.is_empty() {
                blind.iter().for_each(|(bytes, _, _, alias)| fill(self, bytes, alias, POISON));
                self.full();
                self.issue(operation.action, grid);
                self.full();
                for (bytes, read, slot, alias) in &rows {
                    copy(self, bytes, alias, slot, if *read { 0 } else { 1 }, *read);
                }
                self.full();
                blind.iter().for_each(|(bytes, _, _, alias)| fill(self, bytes, alias, !POISON));
                self.full();
            }
            self.issue(operation.action, grid);
            self.full();
            for (bytes, read, slot, _) in rows {
                self.masks(if *read { Mode::TakeChanged } else { Mode::TakeWritten }, *bytes, slot)?;
                let writes = |a: &&Access| a.kind == Kind::Write && a.range.overlaps(&bytes.range());
                if let Some(write) = operation.accesses.iter().find(writes) {
                    self.delay.wrote(*slot, *bytes, Scope { stages: write.stages, flags: write.flags });
                }
                self.counts.delayed += 1;
            }
        }
        Ok(())
    }

    /// Shows all writes to everybody.
    ///
    /// # Errors
    ///
    /// Those of the device.
    ///
    /// # Safety
    ///
    /// As for [`Player::play`].
    pub unsafe fn flush(&mut self) -> VkResult<()> {
        for (slot, bytes) in self.delay.flush() {
            // SAFETY: by the caller.
            unsafe { self.masks(Mode::Show, bytes, &slot)? };
            self.scratch.give(slot);
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As for [`Player::play`].
    unsafe fn masks(&mut self, mode: Mode, bytes: Bytes, slot: &Slot) -> VkResult<()> {
        if let (Some(kernel), Some(alias)) = (self.kernel, self.aliases.get(&bytes.memory)) {
            // SAFETY: by the caller.
            unsafe { kernel.record(self.vk, (self.buffer, self.pools), mode, (alias, bytes), slot)? };
            self.full();
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As for [`Player::play`].
    unsafe fn issue(&self, action: &Action, grid: Option<Grid>) {
        // SAFETY: by the caller.
        unsafe {
            match action {
                Action::Dispatch(bound, whole, _) => self.dispatch(bound, grid.unwrap_or(*whole)),
                Action::Transfer(transfer) => bindings::transfer(self.next, self.buffer, transfer),
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Player::play`].
    unsafe fn dispatch(&self, bound: &Bindings, grid: Grid) {
        // SAFETY: by the caller.
        unsafe {
            bindings::bind(self.next, self.buffer, bound);
            bindings::dispatch(self.next, self.buffer, grid);
        }
    }

    /// Orders everything before here against everything behind.
    fn full(&self) {
        // SAFETY: the command buffer is recording, by the callers of all that calls this.
        unsafe { emit::barrier(self.next, self.buffer, Barrier::FULL) };
    }
}

/// The stages at which an operation does anything.
fn stages(accesses: &[Access]) -> Stages {
    let all = accesses.iter().fold(Stages::empty(), |all, access| all | access.stages);
    if all.is_empty() { Stages::COMPUTE_SHADER } else { all }
}
