//! Pipelines whose dispatches can be cut (`ZINC_BARRIER_SLICE`).
//!
//! A dispatch may begin at another workgroup than the first only where its pipeline was made for that. The flag that says so
//! stands in one of two places: where the application chains the newer, longer flags, the older ones count for nothing.
//!
//! And the driver must have compiled the shader for it. NVIDIA's 580.159 keeps compiled shaders by their SPIR-V and leaves this
//! flag out of the key, in the process and on disk: what was made once without it is handed out where it is asked for, and every
//! piece of a dispatch then begins at the first workgroup (docs/runs/h200/instruments.md). So the driver is given words that
//! mean the same and are others ([`words_of_its_own`]).

use crate::abi::chain;
use ash::vk;

/// The create infos of pipelines, with the flag.
pub struct Cuttable<'a> {
    infos: Vec<vk::ComputePipelineCreateInfo<'a>>,
    /// What stands in for the application's own longer flags.
    _longer: Vec<vk::PipelineCreateFlags2CreateInfoKHR<'a>>,
    cuttable: Vec<bool>,
}

impl<'a> Cuttable<'a> {
    /// Of what an application asks for. A list that has its longer flags behind something else is left alone: what comes
    /// before them would have to be copied, and nobody knows all that may stand there.
    ///
    /// # Safety
    ///
    /// The lists must be valid, and live as long as the result is used.
    pub unsafe fn of(asked: &[vk::ComputePipelineCreateInfo<'a>]) -> Cuttable<'a> {
        type Longer<'a> = vk::PipelineCreateFlags2CreateInfoKHR<'a>;
        // SAFETY: by the caller.
        let place = |info: &vk::ComputePipelineCreateInfo<'a>| unsafe {
            chain(info.p_next).position(|c| c.get::<Longer<'_>>().is_some())
        };
        let places: Vec<Option<usize>> = asked.iter().map(place).collect();
        let is_first = |(info, place): (&vk::ComputePipelineCreateInfo<'a>, &Option<usize>)| {
            // SAFETY: the first of the list is of that type.
            (*place == Some(0)).then(|| unsafe { *info.p_next.cast::<Longer<'a>>() })
        };
        let mut longer: Vec<Longer<'a>> = asked.iter().zip(&places).filter_map(is_first).collect();
        longer.iter_mut().for_each(|l| l.flags |= vk::PipelineCreateFlags2KHR::DISPATCH_BASE);
        let (mut infos, mut copies) = (asked.to_vec(), longer.iter());
        for (info, place) in infos.iter_mut().zip(&places) {
            match place {
                None => info.flags |= vk::PipelineCreateFlags::DISPATCH_BASE,
                Some(0) => {
                    info.p_next = copies.next().map_or(info.p_next, |copy| std::ptr::from_ref(copy).cast())
                }
                Some(_) => {}
            }
        }
        let cuttable = places.iter().map(|place| place.is_none_or(|at| at == 0)).collect();
        Cuttable { infos, _longer: longer, cuttable }
    }

    /// What to ask the driver for.
    pub fn infos(&self) -> *const vk::ComputePipelineCreateInfo<'a> {
        self.infos.as_ptr()
    }

    /// Whether the pipeline of this number may be dispatched with a base.
    pub fn takes_a_base(&self, number: usize) -> bool {
        self.cuttable.get(number).copied().unwrap_or(false)
    }
}

/// A module that does the same and that nobody but this layer has made: with one string more, which nothing refers to. `None`
/// where the words are no module.
pub fn words_of_its_own(words: &[u32]) -> Option<Vec<u32>> {
    const HEADER: usize = 5;
    const BOUND: usize = 3;
    const OP_STRING: u32 = 7;
    let mut at = HEADER;
    // Strings come before names, and behind everything that describes the module as a whole: capabilities, extensions, imports,
    // the memory model, entry points and execution modes.
    while let Some(first) = words.get(at)
        && matches!(first & 0xffff, 10 | 11 | 14..=17 | 331)
    {
        let length = (first >> 16) as usize;
        if length == 0 {
            return None;
        }
        at += length;
    }
    let (head, rest) = words.split_at_checked(at)?;
    let id = *head.get(BOUND)?;
    let text = b"cut by zinc_barrier\0".chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let mut string = vec![OP_STRING, id];
    string.extend(text);
    string[0] |= (string.len() as u32) << 16;
    let mut out = [head, &string, rest].concat();
    out[BOUND] = id.checked_add(1)?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: vk::PipelineCreateFlags = vk::PipelineCreateFlags::DISPATCH_BASE;

    fn flags_in_force(info: &vk::ComputePipelineCreateInfo<'_>) -> u64 {
        // SAFETY: lists that the tests have made.
        let longer = unsafe { chain(info.p_next) }
            .find_map(|c| c.get::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>().map(|f| f.flags.as_raw()));
        longer.unwrap_or(u64::from(info.flags.as_raw()))
    }

    #[test]
    fn a_module_of_its_own_has_other_words_and_means_the_same() {
        let words = super::super::kernel::words_of(include_bytes!(concat!(env!("OUT_DIR"), "/line.spv")));
        let own = words_of_its_own(&words).unwrap();
        assert_eq!((own.len(), own[3]), (words.len() + 7, words[3] + 1));
        let at = words.iter().zip(&own).skip(5).position(|(a, b)| a != b).unwrap() + 5;
        assert_eq!((own[at], own[at + 1]), (7 << 16 | 7, words[3]));
        assert_eq!((&own[5..at], &own[at + 7..]), (&words[5..at], &words[at..]));
        let entry_points = |words: &[u32]| zinc_reflect::reflect(words).unwrap().entry_points;
        assert_eq!(entry_points(&own), entry_points(&words));
        assert_eq!(words_of_its_own(&words), Some(own), "the same each time, for those who compare");
    }

    #[test]
    fn what_is_no_module_is_left_alone() {
        for words in [&[][..], &[1, 2, 3], &[0x0723_0203, 0x1_0300, 0, 10, 0, 17]] {
            assert_eq!(words_of_its_own(words), None, "{words:?}");
        }
        // Cut off in the middle of an instruction.
        assert_eq!(words_of_its_own(&[0x0723_0203, 0x1_0300, 0, 10, 0, 2 << 16 | 17]), None);
    }

    #[test]
    fn the_flag_is_put_where_it_counts_and_what_was_asked_for_stays() {
        let plain = vk::ComputePipelineCreateInfo::default().flags(vk::PipelineCreateFlags::DERIVATIVE);
        let mut feedback = vk::PipelineCreationFeedbackCreateInfo::default();
        let mut longer = vk::PipelineCreateFlags2CreateInfoKHR::default()
            .flags(vk::PipelineCreateFlags2KHR::ALLOW_DERIVATIVES);
        let chained =
            vk::ComputePipelineCreateInfo::default().push_next(&mut feedback).push_next(&mut longer);
        // SAFETY: the lists live on.
        let made = unsafe { Cuttable::of(&[plain, chained]) };
        let bit = u64::from(BASE.as_raw());
        assert_eq!(flags_in_force(&made.infos[0]), bit | u64::from(plain.flags.as_raw()));
        assert_eq!(
            flags_in_force(&made.infos[1]),
            bit | vk::PipelineCreateFlags2KHR::ALLOW_DERIVATIVES.as_raw()
        );
        // SAFETY: as above.
        let types: Vec<_> = unsafe { chain(made.infos[1].p_next) }.map(|c| c.s_type()).collect();
        let feedback = vk::StructureType::PIPELINE_CREATION_FEEDBACK_CREATE_INFO;
        assert_eq!(types, [vk::StructureType::PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR, feedback]);
        assert!(made.takes_a_base(0) && made.takes_a_base(1) && !made.takes_a_base(2));
        // What the application made is as it was.
        assert_eq!(flags_in_force(&chained) & bit, 0);
    }

    #[test]
    fn longer_flags_behind_something_else_are_left_alone_and_the_pipeline_is_not_cut() {
        let mut longer = vk::PipelineCreateFlags2CreateInfoKHR::default();
        let mut feedback = vk::PipelineCreationFeedbackCreateInfo::default();
        let chained =
            vk::ComputePipelineCreateInfo::default().push_next(&mut longer).push_next(&mut feedback);
        // SAFETY: the lists live on.
        let made = unsafe { Cuttable::of(&[chained]) };
        assert_eq!((flags_in_force(&made.infos[0]), made.takes_a_base(0)), (0, false));
    }
}
