//! Some steps of a plan, again and again, on the device's own clock.
//!
//! A token's timeline says what a step costs in its place; this says what it costs among its like. The same step of all
//! layers is one stretch, with the weights of another layer each time, so that no cache holds them, and with the barriers
//! that a stream has which is careful about them.

use super::program::Ends;
use super::stream::Promise;
use super::timing::Queries;
use super::{Error, Program};
use crate::plan::Work;

impl Program {
    /// Microseconds from the beginning of the first of these steps (places in the plan; copies are left out) to the end of the
    /// last, all of them `rounds` times one after the other, where no position reaches `positions`. Nothing may be in flight.
    pub fn measure(&mut self, steps: &[usize], positions: u32, rounds: u32) -> Result<f64, Error> {
        let queries = Queries::new(&self.device, 2, |_| true)?;
        self.recorded = None;
        self.stream.allocate(1)?;
        self.stream.begin(0, Promise::Once)?;
        let commands = self.stream.commands(0);
        queries.reset(commands);
        queries.stamp(commands, 0);
        let mut since: Vec<usize> = Vec::new();
        for _ in 0..rounds {
            for &index in steps {
                let step = &self.plan.steps[index];
                let Work::Dispatch(dispatch) = &step.work else { continue };
                if since.iter().any(|earlier| self.plan.steps[*earlier].conflicts(step)) {
                    self.barrier(commands, Ends::DISPATCHES);
                    since.clear();
                }
                since.push(index);
                let set = self.sets.made[self.set_of(index)];
                self.dispatch(commands, dispatch, dispatch.grid_at(positions), set);
            }
        }
        queries.stamp(commands, 1);
        self.barrier(commands, Ends::LAST);
        self.stream.end(0)?;
        self.stream.submit(1, false)?;
        self.stream.wait()?;
        Ok(queries.read()?[1] / 1e3)
    }

    /// The number of a step's first descriptor set.
    fn set_of(&self, index: usize) -> usize {
        let dispatches = |step: &&crate::plan::Step| matches!(step.work, Work::Dispatch(_));
        self.plan.steps[..index].iter().filter(dispatches).count() * self.sequences() as usize
    }
}
