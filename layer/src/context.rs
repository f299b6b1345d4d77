//! A command buffer in the middle of a call on it.
//!
//! Every hook has the same shape. It finds the command buffer's record; under the record's lock it asks the recorder
//! and does as told; and if anything at all goes wrong on the way, it emits a full barrier in place of whatever was
//! pending, passes the command on, and leaves the rest of the recording alone. An application must never notice that
//! the layer failed.

use crate::abi::DispatchKey;
use crate::asked::Asked;
use crate::device::{CommandBuffer, CommandState, Device, registry};
use crate::emit;
use crate::recorder::{Answer, Kept};
use ash::vk;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use zinc_hazard::{Barrier, Step};

/// Runs `f`; a panic is `None`. Nothing may unwind into the application.
pub(crate) fn catch<R>(f: impl FnOnce() -> Option<R>) -> Option<R> {
    catch_unwind(AssertUnwindSafe(f)).ok().flatten()
}

/// A command buffer with its device and its record.
pub(crate) struct Context<'a> {
    buffer: vk::CommandBuffer,
    /// Its device.
    pub device: &'a Device,
    /// `None` when its allocation was not seen: then everything is passed on.
    pub record: Option<&'a CommandBuffer>,
}

/// Finds the context of a command buffer; `None` when not even its device is known.
///
/// # Safety
///
/// `buffer` must be live, and stay so while the context is used.
// In registers: written to the stack and read again in other pieces, it costs each command as much as the search.
#[inline(always)]
pub(crate) unsafe fn context<'a>(buffer: vk::CommandBuffer) -> Option<Context<'a>> {
    // SAFETY: by the caller.
    unsafe {
        match registry().command_buffers.get(buffer) {
            Some(record) => Some(Context { buffer, device: &record.device, record: Some(record) }),
            None => {
                let device = device_of(buffer)?;
                Some(Context { buffer, device, record: None })
            }
        }
    }
}

/// The device of a command buffer whose allocation was not seen.
///
/// # Safety
///
/// As for [`context`].
#[cold]
#[inline(never)]
unsafe fn device_of<'a>(buffer: vk::CommandBuffer) -> Option<&'a Device> {
    // SAFETY: by the caller.
    unsafe { registry().device(DispatchKey::of(buffer)).map(|d| &**d) }
}

impl Context<'_> {
    /// Runs `f` on the recording. `None` when there is none or `f` failed; after a failure the recording is given up.
    pub fn with<R>(&self, f: impl FnOnce(&mut CommandState) -> R) -> Option<R> {
        let record = self.record?;
        // SAFETY: a context is made in a call on its command buffer, which applications must synchronize.
        match catch(|| Some(unsafe { record.state.with(f) })) {
            Some(Some(done)) => Some(done),
            Some(None) => {
                // Two threads record at once. Whatever was held back is ordered in the plainest way there is.
                self.issue(Barrier::FULL);
                None
            }
            None => {
                self.give_up();
                None
            }
        }
    }

    /// The layer failed: order everything before here against everything after it, and stand aside.
    pub fn give_up(&self) {
        self.device.fail();
        if let Some(record) = self.record {
            catch(|| {
                // SAFETY: as in `with`.
                unsafe {
                    record.state.with(|state| {
                        if let Some(mut segment) = state.segment.take() {
                            segment.abandon(&self.device.next, self.buffer, || self.issue(Barrier::FULL));
                        }
                        state.recorder.give_up();
                    })
                }
            });
        }
        self.issue(Barrier::FULL);
    }

    /// Issues what is held back: all of it where that is for shuffling, and where a policy decides at the end of a stretch,
    /// what was decided, if it has ended.
    pub fn release(&self, state: &mut CommandState) {
        let plan = state.recorder.take_plan();
        let Some(segment) = &mut state.segment else { return };
        let next = &self.device.next;
        let Some(plan) = plan else {
            if !state.recorder.holds() {
                // SAFETY: the command buffer is being recorded: the application is in the middle of a call on it.
                unsafe { segment.release(next, self.buffer) };
            }
            return;
        };
        let withheld: Vec<usize> = (0..plan.emissions.len()).filter(|_| self.device.is_withheld()).collect();
        withheld.iter().for_each(|_| state.recorder.mutated());
        state.recorder.issued_plan(&plan, &withheld);
        let emit = |number: usize| self.issue(emit::plain(plan.emissions[number].barrier));
        // SAFETY: as above.
        unsafe { segment.issue(&plan, &withheld, next, self.buffer, emit) };
    }

    /// What comes next can't be held back, or can't be bound again: what is held is issued now, and for the rest of the command
    /// buffer nothing is held. A policy that decides at the end of a segment goes on as `alias-only`, so that what waits may
    /// go on waiting.
    pub fn stop_holding(&self, state: &mut CommandState) {
        state.recorder.stop_holding();
        self.release(state);
        if let Some(segment) = &mut state.segment {
            segment.close();
        }
    }

    /// The segment has become too long to be held: it ends, and all that is held is issued.
    fn settle(&self, state: &mut CommandState) {
        if state.recorder.holds()
            && let Some(due) = state.recorder.settle()
        {
            self.emit(state, due.barrier);
        }
        self.release(state);
    }

    /// Issues all that waits and all that is held before a command of which nothing is known; `name` says which, for the report.
    pub fn before_unknown(&self, state: &mut CommandState, kept: Kept, name: impl FnOnce() -> String) {
        self.device.kept_for(kept.barriers, name);
        if let Some(due) = kept.due {
            self.emit(state, due.barrier);
        }
        self.release(state);
    }

    /// Emits a barrier of the layer's own making, unless it is the one to be withheld. What is held back then stays
    /// held, and may be issued on either side of where the barrier was.
    pub fn emit(&self, state: &mut CommandState, barrier: Barrier) {
        if self.device.is_withheld() {
            state.recorder.mutated();
        } else {
            self.release(state);
            self.issue(barrier);
            state.recorder.issued_barrier(barrier);
        }
    }

    fn issue(&self, barrier: Barrier) {
        // SAFETY: the command buffer is being recorded; the barrier holds the application's own bits, which its
        // device therefore has, or the plainest bits there are.
        unsafe { emit::barrier(&self.device.next, self.buffer, barrier) };
    }

    /// Records an operation: `decide` asks the recorder, `hold` puts it into the segment if it may go there, `forward`
    /// issues it.
    pub fn operation(
        &self,
        decide: impl FnOnce(&mut CommandState) -> Step,
        hold: impl FnOnce(&mut CommandState) -> bool,
        forward: impl Fn(),
    ) {
        let done = Cell::new(false);
        self.with(|state| {
            let mut hold = Some(hold);
            if state.recorder.holds() {
                if hold.take().is_some_and(|hold| hold(state)) {
                    done.set(true);
                    decide(state);
                    if state.recorder.is_long() {
                        self.settle(state);
                    }
                    return;
                }
                self.stop_holding(state);
            }
            let step = decide(state);
            if let Some(due) = step.before {
                self.emit(state, due.barrier);
            }
            if !hold.is_some_and(|hold| hold(state)) {
                self.release(state);
                done.set(true);
                forward();
            }
            done.set(true);
            state.recorder.issued_operation();
            if let Some(barrier) = step.after {
                self.emit(state, barrier);
            }
        });
        if !done.get() {
            forward();
        }
    }

    /// Records a barrier that the application asks for.
    pub fn barrier(&self, asked: impl FnOnce() -> Asked, forward: impl Fn()) {
        let done = Cell::new(false);
        self.with(|state| {
            if let Some(capture) = &self.device.capture {
                capture.barrier();
            }
            let asked = asked();
            let answer = state.recorder.asked(asked);
            match answer {
                Answer::Withhold => {}
                Answer::Emit => {
                    if self.device.is_withheld() {
                        state.recorder.mutated();
                    } else {
                        self.release(state);
                        done.set(true);
                        forward();
                        state.recorder.issued_barrier(asked.barrier);
                    }
                }
                Answer::PassThrough(kept) => {
                    state.breaks_script();
                    self.before_unknown(state, kept, || "vkCmdPipelineBarrier".into());
                    done.set(true);
                    forward();
                    state.recorder.issued_barrier(asked.barrier);
                }
            }
            done.set(true);
        });
        if !done.get() {
            forward();
        }
    }
}
