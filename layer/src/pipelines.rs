//! Compute pipelines: what their shader does, read from its SPIR-V.
//!
//! A pipeline whose SPIR-V the layer can't see (made from a binary or an identifier, linked from a library) or can't
//! make sense of has no shader record: its dispatches read and write everything. So do those of a pipeline that takes
//! its descriptors from anything but bound or pushed sets.

use crate::abi::chain;
use crate::device::Device;
use crate::replay::traits::Traits;
use crate::tight::Tight;
use ash::vk;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use zinc_hazard::Flags;
use zinc_reflect::{Binding, Class, EntryPoint, Footprint, ReflectError, Specialization, Stage};

/// One `VkShaderModule`. Taken apart when the first pipeline needs it: applications make modules that they never use.
pub struct ShaderModule {
    words: Vec<u32>,
    module: OnceLock<Result<Arc<zinc_reflect::Module>, ReflectError>>,
}

impl ShaderModule {
    /// The record of a module made with `info`.
    ///
    /// # Safety
    ///
    /// `info.p_code` must point to `info.code_size` bytes.
    pub unsafe fn new(info: &vk::ShaderModuleCreateInfo<'_>) -> ShaderModule {
        // SAFETY: by the caller; the specification wants codeSize to be a multiple of 4.
        let words = unsafe { crate::abi::slice(info.p_code, (info.code_size / 4) as u32) }.to_vec();
        ShaderModule { words, module: OnceLock::new() }
    }

    /// Its SPIR-V.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// What is in it.
    ///
    /// # Errors
    ///
    /// Why that can't be told.
    pub fn reflected(&self) -> Result<Arc<zinc_reflect::Module>, ReflectError> {
        self.module.get_or_init(|| zinc_reflect::reflect(&self.words).map(Arc::new)).clone()
    }
}

/// The specialization constants of a stage.
///
/// # Safety
///
/// `info` must be null or valid, with all that it points to.
unsafe fn specialization(info: *const vk::SpecializationInfo<'_>) -> Specialization {
    // SAFETY: by the caller.
    let Some(info) = (unsafe { info.as_ref() }) else { return Specialization::none() };
    // SAFETY: by the caller.
    let (entries, data) = unsafe {
        let size = u32::try_from(info.data_size).unwrap_or(u32::MAX);
        (
            crate::abi::slice(info.p_map_entries, info.map_entry_count),
            crate::abi::slice(info.p_data.cast::<u8>(), size),
        )
    };
    let entries = entries.iter().map(|entry| (entry.constant_id, entry.offset as usize, entry.size));
    Specialization::from_entries(entries, data)
}

/// The module of a stage.
enum Code<'m> {
    /// Made before.
    Made(&'m ShaderModule),
    /// It came with the stage (maintenance5), which counts where no other is named.
    Inline(ShaderModule),
}

impl Code<'_> {
    fn get(&self) -> &ShaderModule {
        match self {
            Code::Made(module) => module,
            Code::Inline(module) => module,
        }
    }
}

/// What a stage runs.
struct Source<'m> {
    module: Code<'m>,
    /// Of its entry point.
    name: &'m str,
    constants: Specialization,
}

impl<'m> Source<'m> {
    /// Reads a stage; `None` where its code was not seen.
    ///
    /// # Safety
    ///
    /// The stage must be one of which nothing is ignored, and valid.
    unsafe fn of(
        stage: &vk::PipelineShaderStageCreateInfo<'m>,
        find: impl Fn(vk::ShaderModule) -> Option<&'m ShaderModule>,
    ) -> Option<Source<'m>> {
        // SAFETY: by the caller; the name is a valid C string.
        unsafe {
            let module =
                match stage.module == vk::ShaderModule::null() {
                    false => Code::Made(find(stage.module)?),
                    true => Code::Inline(chain(stage.p_next).find_map(|c| {
                        c.get::<vk::ShaderModuleCreateInfo<'_>>().map(|i| ShaderModule::new(i))
                    })?),
                };
            let name = (!stage.p_name.is_null()).then(|| CStr::from_ptr(stage.p_name))?.to_str().ok()?;
            Some(Source { module, name, constants: specialization(stage.p_specialization_info) })
        }
    }
}

/// One compute pipeline.
#[derive(Debug)]
pub struct Pipeline {
    /// Its number in the process, in order of creation from 0.
    pub number: u64,
    /// What its entry point does; `None` when that can't be known.
    pub shader: Option<EntryPoint>,
    /// Why not, in words for the report.
    pub unread: Option<Arc<str>>,
    /// For each of the shader's bindings that is one buffer and no array, the flag of its reads; worked out once.
    pub single: Box<[Option<Flags>]>,
    /// The set that all its bindings are in, where that is one.
    pub only_set: Option<u32>,
    /// Which part of what is bound its dispatches reach, if that is asked for and can be followed.
    pub tight: Option<Tight>,
    /// Writes out of bounds may land anywhere in the buffer (rule 11).
    pub robust_writes: bool,
    /// What a replay must know of its shader; only where submissions are replayed.
    pub traits: Option<Traits>,
}

/// What a `pNext` list says of storage buffers' robustness: whether a write out of bounds may land elsewhere in the
/// buffer. `None` where it leaves that to the device.
///
/// # Safety
///
/// `p_next` must be null or a valid list.
unsafe fn robust_writes(p_next: *const c_void) -> Option<bool> {
    use vk::PipelineRobustnessBufferBehaviorEXT as Behavior;
    // SAFETY: by the caller.
    let found = unsafe { chain(p_next) }
        .find_map(|c| c.get::<vk::PipelineRobustnessCreateInfoEXT<'_>>().map(|i| i.storage_buffers))?;
    match found {
        Behavior::DISABLED | Behavior::ROBUST_BUFFER_ACCESS_2 => Some(false),
        Behavior::ROBUST_BUFFER_ACCESS => Some(true),
        _ => None,
    }
}

/// Looks whether everything that a pipeline's lists say is of a kind that leaves alone what its shader does and where its sets
/// come from. Descriptor buffers and heaps do not, nor do binaries, nor what this layer has not heard of.
///
/// # Errors
///
/// What is of another kind, in words for the report.
///
/// # Safety
///
/// The lists must be null or valid.
unsafe fn is_plain(info: &vk::ComputePipelineCreateInfo<'_>) -> Result<(), String> {
    use vk::StructureType as Type;
    let descriptor_buffer = vk::PipelineCreateFlags::DESCRIPTOR_BUFFER_EXT;
    // SAFETY: by the caller.
    let (mut pipeline, mut stage) = unsafe { (chain(info.p_next), chain(info.stage.p_next)) };
    let odd_pipeline = pipeline.find(|c| match c.s_type() {
        Type::PIPELINE_CREATION_FEEDBACK_CREATE_INFO
        | Type::PIPELINE_ROBUSTNESS_CREATE_INFO_EXT
        | Type::PIPELINE_COMPILER_CONTROL_CREATE_INFO_AMD => false,
        // The low half is that of the older flags; what has come since may be anything.
        _ => !c.get::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>().is_some_and(|f| {
            let bits = f.flags.as_raw();
            bits >> 32 == 0 && bits & u64::from(descriptor_buffer.as_raw()) == 0
        }),
    });
    let odd_stage = stage.find(|c| {
        !matches!(
            c.s_type(),
            Type::SHADER_MODULE_CREATE_INFO
                | Type::PIPELINE_ROBUSTNESS_CREATE_INFO_EXT
                | Type::PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO
                | Type::SHADER_MODULE_VALIDATION_CACHE_CREATE_INFO_EXT
                | Type::DEBUG_UTILS_OBJECT_NAME_INFO_EXT
        )
    });
    let odd = odd_pipeline.or(odd_stage).map(|c| format!("{:?}", c.s_type()));
    match odd {
        _ if info.flags.contains(descriptor_buffer) => Err("a pipeline for descriptor buffers".into()),
        Some(structure) => Err(format!("a pipeline whose create info has {structure}")),
        None => Ok(()),
    }
}

impl Pipeline {
    /// Looks for what a replay must know, in the module with these words; `takes_a_base` is whether the pipeline was made for
    /// dispatches that begin elsewhere than at the first workgroup.
    pub fn look_closer(&mut self, words: &[u32], takes_a_base: bool) {
        self.traits = self.shader.as_ref().and_then(|shader| {
            let image = |b: &Binding| {
                let class = matches!(b.class, Class::StorageImage | Class::StorageTexelBuffer);
                class && b.direction.write
            };
            let writes_images = shader.bindings.iter().any(image);
            Some(Traits { writes_images, takes_a_base, ..Traits::of(words)? })
        });
    }

    /// The record of a pipeline made with `info` on `device`; `module` finds the record of a shader module.
    ///
    /// # Safety
    ///
    /// `info` must be valid, with all that it points to.
    pub unsafe fn new<'m>(
        info: &vk::ComputePipelineCreateInfo<'m>,
        module: impl Fn(vk::ShaderModule) -> Option<&'m ShaderModule>,
        device: &Device,
    ) -> Pipeline {
        let stage = &info.stage;
        // SAFETY: by the caller.
        let robust = unsafe { robust_writes(stage.p_next).or(robust_writes(info.p_next)) };
        // Of a pipeline made from binaries, module, name and constants are ignored, and may be anything: nothing of a
        // stage is looked at before it is known that it counts.
        // SAFETY: by the caller.
        let source = unsafe {
            is_plain(info).and_then(|()| {
                Source::of(stage, module).ok_or_else(|| "SPIR-V that was not seen".to_string())
            })
        };
        let read = source.as_ref().map_err(Clone::clone).and_then(|source| {
            let Source { module, name, constants } = source;
            reflected(module.get(), name, constants, device.is_tight())
        });
        let source = source.ok();
        let (shader, tight, unread) = match read {
            Ok((shader, tight)) => (Some(shader), tight, None),
            Err(why) => (None, None, Some(why.into())),
        };
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        if let Some((capture, source)) = device.capture.as_ref().zip(source.as_ref()) {
            capture.pipeline(number, &source.module.get().words, source.name, &source.constants);
        }
        let single =
            shader.iter().flat_map(|shader| &shader.bindings).map(crate::footprint::single).collect();
        let only_set = shader.as_ref().and_then(crate::footprint::only_set);
        Pipeline {
            number,
            shader,
            unread,
            single,
            only_set,
            tight,
            traits: None,
            robust_writes: robust.unwrap_or(device.robust_writes),
        }
    }
}

/// What the entry point `name` does with these specialization constants, and where, if that is wanted.
///
/// # Errors
///
/// Why that can't be told, in words for the report.
fn reflected(
    module: &ShaderModule,
    name: &str,
    constants: &Specialization,
    tight: bool,
) -> Result<(EntryPoint, Option<Tight>), String> {
    let footprint = if tight { Footprint::compile(&module.words, name, constants).ok() } else { None };
    let (whole, folded);
    // What the constants decide is folded where that was done anyway, or where there are any.
    let not_read = |why: ReflectError| format!("a shader that can't be read: {why}");
    let entry = match &footprint {
        Some(footprint) => Some(footprint.entry_point()),
        None if *constants == Specialization::none() => {
            whole = module.reflected().map_err(not_read)?;
            whole.entry_point(name, Stage::Compute)
        }
        None => {
            folded = zinc_reflect::reflect_specialized(&module.words, constants).map_err(not_read)?;
            folded.entry_point(name, Stage::Compute)
        }
    };
    let entry = entry.ok_or("a shader without the entry point that its pipeline names")?;
    if let Some(why) = &entry.unknown {
        return Err(format!("a shader that is not understood: {why}"));
    }
    let mut entry = entry.clone();
    // What is alike stands together: the tracker looks at runs of accesses that differ in their bytes alone.
    entry.bindings.sort_by_key(|b| (b.set, b.direction.write, !b.direction.read));
    let tight = footprint.and_then(|footprint| Tight::new(footprint, &entry));
    Ok((entry, tight))
}
