//! Whether attention of one token is computed on cooperative matrices.
//!
//! The kernel keeps its cache in the order in which an invocation holds the elements of a factor, which the extension leaves to
//! the driver. So the device is asked: a kernel of one subgroup says which elements each of its invocations has, and where
//! those are not eight each, and all of them, attention is left to the plain kernel. And since a driver may get a matrix
//! wrong, the kernel computes one attention of the model's own heads first, which has to agree with the processor's.

use std::rc::Rc;

use super::{Error, Matrices, Setup};
use crate::model::Config;
use crate::ops;
use crate::plan::{CoopAttention, Cooperative, Fragment, Fusion, Options};
use crate::vk::Device;

/// Query heads that share a key from which on it pays by itself: with four, a token took up to 10% less on an NVIDIA H200, and with
/// two or three up to 2% more.
const WORTH_IT: u32 = 4;

/// What attention of one token is computed on.
#[derive(Debug, Clone, Default)]
pub(super) struct Choice {
    /// The shape; none for float arithmetic.
    pub(super) fragment: Option<Fragment>,
    /// The place of each slot of a block of that shape.
    pub(super) places: Vec<u32>,
    /// What is wrong with the device, where it would have been chosen by itself.
    pub(super) refused: Option<String>,
}

/// Chooses for a session of these options.
pub(super) fn choose(
    device: &Rc<Device>,
    config: &Config,
    setup: &Setup,
    options: &Options,
) -> Result<Choice, Error> {
    let heads = (config.heads / config.kv_heads, config.head_dim);
    let asked = setup.attention == Matrices::Cooperative;
    // What a prompt's batches lose on this cache was not measured on a GPU yet.
    let preferred = device.prefers_cooperative_attention() && heads.0 >= WORTH_IT && setup.prompt_batch == 0;
    if setup.attention == Matrices::Plain || !(asked || preferred) {
        return Ok(Choice::default());
    }
    let no = |why: String| Err(Error::NotCooperative("attention", why));
    if !setup.fusion.parts().attention || setup.fusion == Fusion::Persistent {
        let why = "only attention fused by --fusion rope or all is computed on them";
        return if asked { no(why.to_owned()) } else { Ok(Choice::default()) };
    }
    match suitable(device, heads, options)? {
        Ok((fragment, places)) => Ok(Choice { fragment: Some(fragment), places, refused: None }),
        Err(why) if asked => no(why),
        Err(why) => Ok(Choice { refused: Some(why), ..Choice::default() }),
    }
}

/// The device's shape for heads of this size, of which so many share a key, and its order; or why there is none.
fn suitable(
    device: &Rc<Device>,
    (group, head_dim): (u32, u32),
    options: &Options,
) -> Result<Result<(Fragment, Vec<u32>), String>, Error> {
    let fragment = match device.cooperative() {
        Cooperative::Has(shapes) => shapes.attention,
        Cooperative::Lacks(why) => return Ok(Err(why.to_owned())),
    };
    let Some(fragment) = fragment else {
        return Ok(Err("the device has no shape of which an invocation holds eight elements".to_owned()));
    };
    let tuning = &options.tuning;
    let Some(coop) = CoopAttention::new(group, head_dim, fragment, &tuning.fused, &options.limits) else {
        return Ok(Err(format!(
            "{group} heads of {head_dim} to a key do not fit a workgroup of this device"
        )));
    };
    let places = ops::attention_order(device, tuning, (group, head_dim), &coop)?;
    Ok(places.map(|places| (fragment, places)).map_err(|wrong| format!("the device {wrong}")))
}
