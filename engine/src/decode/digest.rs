//! What is remembered of a session's logits: a digest of all of them, and if any was more than one number.

use super::{Session, update_digest};
use crate::probe;

impl Session {
    /// Notes the logits that were just read.
    pub(super) fn note(&mut self) {
        update_digest(&mut self.digest, &self.logits);
        if self.blank != Some(false) {
            self.blank = Some(probe::is_blank(&self.logits));
        }
    }

    /// If all logits so far were all one number, as a device leaves them that computes nothing; none before the first.
    pub fn is_blank(&self) -> Option<bool> {
        self.blank
    }
}
