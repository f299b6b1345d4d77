//! What is in a descriptor set, by the rules of the specification (14.2 "Descriptor Sets").
//!
//! A set is one flat row of slots, its bindings side by side in the order of their numbers. That makes the one odd
//! rule fall out by itself: a write or copy of more descriptors than a binding has goes on in the next binding with
//! any, and in a flat row the next slot *is* there. llama.cpp writes all its sets that way.
//!
//! A slot keeps the record of its buffer, not the handle, so a handle that is reused later does not change it.

use crate::memory::{Buffer, BufferView};
use ash::vk;
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One binding of a set layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Binding {
    number: u32,
    ty: vk::DescriptorType,
    first_slot: u32,
    count: u32,
    /// Which dynamic descriptor of the set its first slot is, for dynamic types.
    first_dynamic: Option<u32>,
}

/// One `VkDescriptorSetLayout`.
#[derive(Debug, Default)]
pub struct SetLayout {
    /// By number.
    bindings: Vec<Binding>,
    slots: u32,
    dynamics: u32,
    /// Contents may change after a set was bound: nothing is known about *where* (rule 7).
    pub update_after_bind: bool,
}

impl SetLayout {
    /// From the create info's bindings, `(number, type, count)`.
    pub fn new(bindings: &[(u32, vk::DescriptorType, u32)], update_after_bind: bool) -> SetLayout {
        let mut sorted = bindings.to_vec();
        sorted.sort_by_key(|b| b.0);
        let mut layout = SetLayout { update_after_bind, ..SetLayout::default() };
        for (number, ty, count) in sorted {
            // The count of an inline block is its size in bytes; it is one thing that only the host writes.
            let count = if ty == vk::DescriptorType::INLINE_UNIFORM_BLOCK { 1 } else { count };
            let dynamic = matches!(
                ty,
                vk::DescriptorType::STORAGE_BUFFER_DYNAMIC | vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC
            );
            layout.bindings.push(Binding {
                number,
                ty,
                first_slot: layout.slots,
                count,
                first_dynamic: dynamic.then_some(layout.dynamics),
            });
            layout.slots += count;
            layout.dynamics += if dynamic { count } else { 0 };
        }
        layout
    }

    fn binding(&self, number: u32) -> Option<&Binding> {
        self.bindings.binary_search_by_key(&number, |b| b.number).ok().map(|i| &self.bindings[i])
    }

    /// How many dynamic offsets a bind of such a set consumes.
    pub fn dynamic_count(&self) -> usize {
        self.dynamics as usize
    }
}

/// What one descriptor refers to.
#[derive(Clone, Debug, Default)]
pub enum Slot {
    /// Never written.
    #[default]
    Empty,
    /// Bytes of a buffer.
    Buffer {
        /// `None` when the buffer's creation was not seen.
        buffer: Option<Arc<Buffer>>,
        /// Where it begins, in bytes.
        offset: u64,
        /// Its bytes; `None` reaches to the end of the buffer.
        size: Option<u64>,
    },
    /// Bytes of a buffer through a format.
    Texels(Option<Arc<BufferView>>),
    /// An image: somewhere in memory.
    Image,
    /// No memory that a shader could share: samplers, inline blocks, null descriptors.
    Nothing,
    /// Something this layer does not model.
    Unknown,
}

/// One `VkDescriptorSet`.
#[derive(Debug)]
pub struct Set {
    /// The layout it was allocated with.
    pub layout: Arc<SetLayout>,
    slots: RwLock<Vec<Slot>>,
}

/// How handles in a write become records.
pub trait Resolve {
    /// The record of a buffer.
    fn buffer(&self, buffer: vk::Buffer) -> Option<Arc<Buffer>>;
    /// The record of a buffer view.
    fn view(&self, view: vk::BufferView) -> Option<Arc<BufferView>>;
}

impl Set {
    /// An empty set.
    pub fn new(layout: Arc<SetLayout>) -> Set {
        let slots = RwLock::new(vec![Slot::Empty; layout.slots as usize]);
        Set { layout, slots }
    }

    /// Forgets the contents: something wrote to the set that the layer can't read.
    pub fn taint(&self) {
        self.slots.write().fill(Slot::Unknown);
    }

    /// Takes in a `VkWriteDescriptorSet`.
    ///
    /// # Safety
    ///
    /// The array that the write's type calls for must be valid.
    pub unsafe fn write(&self, write: &vk::WriteDescriptorSet<'_>, resolve: &impl Resolve) {
        let Some(binding) = self.layout.binding(write.dst_binding) else { return self.taint() };
        if write.descriptor_type == vk::DescriptorType::INLINE_UNIFORM_BLOCK {
            // Element and count are bytes here.
            return self.fill(binding.first_slot as usize, [Slot::Nothing]);
        }
        let first = binding.first_slot as usize + write.dst_array_element as usize;
        let count = write.descriptor_count;
        use vk::DescriptorType as Type;
        match write.descriptor_type {
            Type::STORAGE_BUFFER
            | Type::UNIFORM_BUFFER
            | Type::STORAGE_BUFFER_DYNAMIC
            | Type::UNIFORM_BUFFER_DYNAMIC => {
                // SAFETY: by the caller, for this type.
                let infos = unsafe { crate::abi::slice(write.p_buffer_info, count) };
                self.fill(
                    first,
                    infos.iter().map(|info| {
                        if info.buffer == vk::Buffer::null() {
                            return Slot::Nothing;
                        }
                        Slot::Buffer {
                            buffer: resolve.buffer(info.buffer),
                            offset: info.offset,
                            size: crate::memory::size_of_range(info.range),
                        }
                    }),
                );
            }
            Type::STORAGE_TEXEL_BUFFER | Type::UNIFORM_TEXEL_BUFFER => {
                // SAFETY: by the caller, for this type.
                let views = unsafe { crate::abi::slice(write.p_texel_buffer_view, count) };
                self.fill(
                    first,
                    views.iter().map(|view| match *view == vk::BufferView::null() {
                        true => Slot::Nothing,
                        false => Slot::Texels(resolve.view(*view)),
                    }),
                );
            }
            ty => {
                let slot = match ty {
                    Type::SAMPLER => Slot::Nothing,
                    Type::COMBINED_IMAGE_SAMPLER
                    | Type::SAMPLED_IMAGE
                    | Type::STORAGE_IMAGE
                    | Type::INPUT_ATTACHMENT => Slot::Image,
                    _ => Slot::Unknown,
                };
                self.fill(first, std::iter::repeat_n(slot, count as usize));
            }
        }
    }

    fn fill(&self, first: usize, contents: impl IntoIterator<Item = Slot>) {
        let mut slots = self.slots.write();
        for (place, slot) in slots.iter_mut().skip(first).zip(contents) {
            *place = slot;
        }
    }

    /// Takes in a `VkCopyDescriptorSet` from `source`, which may be the set itself.
    pub fn copy(&self, source: &Set, copy: &vk::CopyDescriptorSet<'_>) {
        let (Some(to), Some(from)) =
            (self.layout.binding(copy.dst_binding), source.layout.binding(copy.src_binding))
        else {
            return self.taint();
        };
        if to.ty == vk::DescriptorType::INLINE_UNIFORM_BLOCK {
            return self.fill(to.first_slot as usize, [Slot::Nothing]);
        }
        let start = from.first_slot as usize + copy.src_array_element as usize;
        let copied: Vec<Slot> =
            source.slots.read().iter().skip(start).take(copy.descriptor_count as usize).cloned().collect();
        self.fill(to.first_slot as usize + copy.dst_array_element as usize, copied);
    }

    /// Calls `visit` for the descriptors of `binding`, each with its dynamic offset; all of them, or the `elements`
    /// named. Says whether the binding exists.
    pub fn visit(
        &self,
        binding: u32,
        elements: Option<&BTreeSet<u32>>,
        dynamic_offsets: &[u32],
        mut visit: impl FnMut(&Slot, u64),
    ) -> bool {
        let Some(binding) = self.layout.binding(binding) else { return false };
        let slots = self.slots.read();
        let mut each = |element: u32| {
            let offset = binding
                .first_dynamic
                .and_then(|d| dynamic_offsets.get((d + element) as usize))
                .map_or(0, |offset| u64::from(*offset));
            match slots.get((binding.first_slot + element) as usize) {
                Some(slot) if element < binding.count => visit(slot, offset),
                _ => visit(&Slot::Unknown, 0),
            }
        };
        match elements {
            Some(elements) => elements.iter().copied().for_each(&mut each),
            None => (0..binding.count).for_each(&mut each),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk::Handle;
    use vk::DescriptorType as Type;

    /// Buffers whose size is their handle, so that tests can tell them apart.
    struct ByHandle;

    impl Resolve for ByHandle {
        fn buffer(&self, buffer: vk::Buffer) -> Option<Arc<Buffer>> {
            Some(Arc::new(Buffer::new(&vk::BufferCreateInfo::default().size(buffer.as_raw()))))
        }

        fn view(&self, _: vk::BufferView) -> Option<Arc<BufferView>> {
            None
        }
    }

    fn infos(offsets: &[u64]) -> Vec<vk::DescriptorBufferInfo> {
        offsets
            .iter()
            .map(|o| vk::DescriptorBufferInfo::default().buffer(vk::Buffer::from_raw(1)).offset(*o).range(16))
            .collect()
    }

    fn offsets(set: &Set, binding: u32, dynamic: &[u32]) -> Vec<Option<u64>> {
        let mut out = Vec::new();
        set.visit(binding, None, dynamic, |slot, add| {
            out.push(match slot {
                Slot::Buffer { offset, .. } => Some(offset + add),
                _ => None,
            });
        });
        out
    }

    fn write(set: &Set, binding: u32, element: u32, offsets: &[u64]) {
        let infos = infos(offsets);
        let write = vk::WriteDescriptorSet::default()
            .dst_binding(binding)
            .dst_array_element(element)
            .descriptor_type(Type::STORAGE_BUFFER)
            .buffer_info(&infos);
        // SAFETY: the infos live until the call returns.
        unsafe { set.write(&write, &ByHandle) };
    }

    #[test]
    fn one_write_spills_over_into_the_next_bindings_and_skips_empty_ones() {
        // Numbers out of order and with a gap, one binding with no descriptor.
        let layout = SetLayout::new(
            &[
                (7, Type::STORAGE_BUFFER, 1),
                (0, Type::STORAGE_BUFFER, 1),
                (2, Type::STORAGE_BUFFER, 2),
                (1, Type::STORAGE_BUFFER, 0),
            ],
            false,
        );
        let set = Set::new(Arc::new(layout));
        write(&set, 0, 0, &[10, 20, 30, 40]);
        assert_eq!(offsets(&set, 0, &[]), [Some(10)]);
        assert_eq!(offsets(&set, 2, &[]), [Some(20), Some(30)]);
        assert_eq!(offsets(&set, 7, &[]), [Some(40)]);
        write(&set, 2, 1, &[33]);
        assert_eq!(offsets(&set, 2, &[]), [Some(20), Some(33)], "an element of an array");
    }

    #[test]
    fn dynamic_offsets_go_by_binding_number_then_element() {
        let layout = SetLayout::new(
            &[
                (3, Type::STORAGE_BUFFER_DYNAMIC, 1),
                (1, Type::UNIFORM_BUFFER_DYNAMIC, 2),
                (2, Type::STORAGE_BUFFER, 1),
            ],
            false,
        );
        assert_eq!(layout.dynamic_count(), 3);
        let set = Set::new(Arc::new(layout));
        write(&set, 1, 0, &[0, 0, 0, 0]);
        let dynamic = [100, 200, 300];
        assert_eq!(offsets(&set, 1, &dynamic), [Some(100), Some(200)]);
        assert_eq!(offsets(&set, 2, &dynamic), [Some(0)], "a plain buffer takes none");
        assert_eq!(offsets(&set, 3, &dynamic), [Some(300)]);
    }

    #[test]
    fn copies_take_what_is_there_now() {
        let layout =
            Arc::new(SetLayout::new(&[(0, Type::STORAGE_BUFFER, 2), (1, Type::STORAGE_BUFFER, 1)], false));
        let (a, b) = (Set::new(layout.clone()), Set::new(layout));
        write(&a, 0, 0, &[1, 2, 3]);
        let copy = vk::CopyDescriptorSet::default()
            .src_binding(0)
            .src_array_element(1)
            .dst_binding(0)
            .dst_array_element(0)
            .descriptor_count(2);
        b.copy(&a, &copy);
        assert_eq!(offsets(&b, 0, &[]), [Some(2), Some(3)], "copies spill over as writes do");
        write(&a, 0, 1, &[9]);
        assert_eq!(offsets(&b, 0, &[]), [Some(2), Some(3)], "a later write to the source changes nothing");
    }

    #[test]
    fn what_a_layout_does_not_have_is_unknown() {
        let set = Set::new(Arc::new(SetLayout::new(&[(0, Type::STORAGE_BUFFER, 1)], false)));
        write(&set, 5, 0, &[1]);
        let mut unknown = 0;
        assert!(set.visit(0, None, &[], |slot, _| unknown += usize::from(matches!(slot, Slot::Unknown))));
        assert_eq!(unknown, 1, "a write to a binding that is not there makes the set unknown");
        assert!(!set.visit(5, None, &[], |_, _| {}));
        assert!(
            set.visit(0, Some(&BTreeSet::from([3])), &[], |slot, _| assert!(matches!(slot, Slot::Unknown)))
        );
    }
}
