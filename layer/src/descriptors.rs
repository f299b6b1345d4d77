//! What is in a descriptor set, by the rules of the specification (14.2 "Descriptor Sets").
//!
//! A set is one flat row of slots, its bindings side by side in the order of their numbers. That makes the one odd
//! rule fall out by itself: a write or copy of more descriptors than a binding has goes on in the next binding with
//! any, and in a flat row the next slot *is* there. llama.cpp writes all its sets that way.
//!
//! A slot keeps the bytes that its buffer had when it was written, not the handle, so a handle that is reused later does
//! not change it. Slots are kept in atomic words, read and written without a lock: the specification forbids writing a
//! set while it is used, and of an application that does it all the same the layer may read nonsense, but nothing worse.

use crate::memory::{EXTERNAL, Extent};
use crate::set_layouts::{Binding, SetLayout};
use ash::vk;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zinc_hazard::{MemoryId, Range};

/// What one descriptor refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slot {
    /// No write to it was seen.
    #[default]
    Empty,
    /// Memory.
    Bytes(Extent),
    /// No memory that a shader could share: samplers, inline blocks, null descriptors.
    Nothing,
    /// Something this layer does not model.
    Unknown,
}

impl Slot {
    /// What a dispatch may reach where this is in a binding of a set. A descriptor that a dispatch may reach must have been
    /// written, so one without a write was written in a way that the layer does not see, and may be anything. It need not
    /// have been where the binding is partially bound and no invocation reaches it; nor has an inline block, which is never
    /// any other memory than its own.
    fn reached(self, binding: &Binding) -> Slot {
        match self {
            Slot::Empty if binding.ty == vk::DescriptorType::INLINE_UNIFORM_BLOCK => Slot::Nothing,
            Slot::Empty if !binding.partial => Slot::Unknown,
            slot => slot,
        }
    }
}

/// A slot in memory: what it is, then the parts of its extent.
#[derive(Debug, Default)]
struct Cell([AtomicU64; 6]);

impl Cell {
    const EMPTY: u64 = 0;
    const ANYWHERE: u64 = 1;
    const BYTES: u64 = 2;
    const NOTHING: u64 = 3;
    const UNKNOWN: u64 = 4;

    /// Says whether that changed anything.
    fn set(&self, slot: Slot) -> bool {
        let put = |words: &[u64]| {
            let mut changed = false;
            for (place, value) in self.0.iter().zip(words) {
                changed |= place.load(Ordering::Relaxed) != *value;
                place.store(*value, Ordering::Relaxed);
            }
            changed
        };
        match slot {
            Slot::Empty => put(&[Cell::EMPTY]),
            Slot::Nothing => put(&[Cell::NOTHING]),
            Slot::Unknown => put(&[Cell::UNKNOWN]),
            Slot::Bytes(Extent::Anywhere) => put(&[Cell::ANYWHERE]),
            Slot::Bytes(Extent::Bytes { memory, start, size, buffer }) => {
                put(&[Cell::BYTES, memory.0, start, size.unwrap_or(vk::WHOLE_SIZE), buffer.0, buffer.1])
            }
        }
    }

    /// The bytes from here on, without a detour over [`Slot`]; `None` where it is not bytes of memory that is one object's.
    #[inline]
    fn range(&self, granule: u64) -> Option<Range> {
        let word = |i: usize| self.0[i].load(Ordering::Relaxed);
        if word(0) != Cell::BYTES || word(1) == EXTERNAL.0 {
            return None;
        }
        let (start, size) = (word(2), word(3));
        let size = if size == vk::WHOLE_SIZE { word(5).saturating_sub(start) } else { size };
        Some(Range::bytes(MemoryId(word(1)), start, size, granule))
    }

    fn get(&self) -> Slot {
        let word = |i: usize| self.0[i].load(Ordering::Relaxed);
        match word(0) {
            Cell::EMPTY => Slot::Empty,
            Cell::NOTHING => Slot::Nothing,
            Cell::ANYWHERE => Slot::Bytes(Extent::Anywhere),
            Cell::BYTES => Slot::Bytes(Extent::Bytes {
                memory: MemoryId(word(1)),
                start: word(2),
                size: crate::memory::size_of_range(word(3)),
                buffer: (word(4), word(5)),
            }),
            _ => Slot::Unknown,
        }
    }
}

/// So many empty cells, of which none takes memory before it is written.
fn empty_cells(count: usize) -> Box<[Cell]> {
    let Ok(layout) = std::alloc::Layout::array::<Cell>(count) else { return Box::default() };
    if layout.size() == 0 {
        return Box::default();
    }
    // SAFETY: the size is not 0. A cell is atomic words, for which zeros are valid, and Cell::EMPTY is 0. The memory was
    // allocated for `count` cells by the global allocator, as a box of that many is.
    unsafe {
        let cells = std::alloc::alloc_zeroed(layout).cast::<Cell>();
        if cells.is_null() {
            // Without cells every descriptor is unknown.
            return Box::default();
        }
        Box::from_raw(std::ptr::slice_from_raw_parts_mut(cells, count))
    }
}

/// One `VkDescriptorSet`.
#[derive(Debug)]
pub struct Set {
    /// The layout it was allocated with.
    pub layout: Arc<SetLayout>,
    /// None where the contents may change after a bind, since nothing is known of *where* then.
    slots: Box<[Cell]>,
    /// How many descriptors the last binding has.
    last_count: u32,
    /// Its number in the process; no two sets have one, whatever their handles are.
    number: u64,
    /// How often its contents have changed.
    changes: AtomicU64,
}

/// How handles in a write become places.
pub trait Resolve {
    /// Bytes of a buffer; `None` when its creation was not seen.
    fn buffer(&self, buffer: vk::Buffer, offset: u64, size: Option<u64>) -> Option<Extent>;
    /// The bytes of a buffer view.
    fn view(&self, view: vk::BufferView) -> Option<Extent>;
    /// The bytes of an image view's image.
    fn image(&self, view: vk::ImageView) -> Extent;
}

impl Set {
    /// An empty set.
    pub fn new(layout: Arc<SetLayout>) -> Set {
        Set::with_count(layout, 0)
    }

    /// An empty set whose last binding has `count` descriptors, if the layout leaves that to its sets.
    pub fn with_count(layout: Arc<SetLayout>, count: u32) -> Set {
        let bound = layout.bindings.last().map_or(0, |last| last.count);
        let last_count = if layout.variable { count.min(bound) } else { bound };
        let slots = if layout.update_after_bind { 0 } else { layout.slots - bound + last_count };
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Set { layout, slots: empty_cells(slots as usize), last_count, number, changes: AtomicU64::new(0) }
    }

    /// How many descriptors a binding of this set has.
    fn count(&self, binding: &Binding) -> u32 {
        let last = self.layout.bindings.last().is_some_and(|last| last.number == binding.number);
        if last { self.last_count } else { binding.count }
    }

    /// A set of which nothing is known but its layout.
    pub fn unknown(layout: Arc<SetLayout>) -> Set {
        let set = Set::new(layout);
        set.taint();
        set
    }

    /// A name for what is in it now: no other set, and not this one with other contents, has it too.
    #[inline]
    pub fn contents(&self) -> [u64; 2] {
        [self.number, self.changes.load(Ordering::Relaxed)]
    }

    /// Puts contents into slots, the only way there is. Who writes a set anew often writes what was in it.
    fn put_slots<'a>(&self, slots: impl Iterator<Item = (&'a Cell, Slot)>) {
        let changed = slots.fold(false, |changed, (place, slot)| place.set(slot) | changed);
        if changed {
            // Plain: nobody else may write the set meanwhile.
            self.changes.store(self.changes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Forgets the contents: something wrote to the set that the layer can't read.
    pub fn taint(&self) {
        self.put_slots(self.slots.iter().map(|place| (place, Slot::Unknown)));
    }

    /// Takes in a `VkWriteDescriptorSet`.
    ///
    /// # Safety
    ///
    /// The array that the write's type calls for must be valid.
    pub unsafe fn write(&self, write: &vk::WriteDescriptorSet<'_>, resolve: &impl Resolve) {
        use vk::DescriptorType as Type;
        let (array, stride) = match write.descriptor_type {
            Type::STORAGE_BUFFER
            | Type::UNIFORM_BUFFER
            | Type::STORAGE_BUFFER_DYNAMIC
            | Type::UNIFORM_BUFFER_DYNAMIC => {
                (write.p_buffer_info.cast(), size_of::<vk::DescriptorBufferInfo>())
            }
            Type::STORAGE_TEXEL_BUFFER | Type::UNIFORM_TEXEL_BUFFER => {
                (write.p_texel_buffer_view.cast(), size_of::<vk::BufferView>())
            }
            _ => (write.p_image_info.cast::<u8>(), size_of::<vk::DescriptorImageInfo>()),
        };
        let (place, count) = ((write.dst_binding, write.dst_array_element), write.descriptor_count);
        // SAFETY: by the caller.
        unsafe { self.put(place, write.descriptor_type, (array, stride, count), resolve) }
    }

    /// Writes descriptors of one type from `(binding, element)` on, as they lie in memory: from where, the bytes from one
    /// to the next, and how many.
    ///
    /// # Safety
    ///
    /// There must be a structure of the kind that the type calls for in each place.
    pub unsafe fn put(
        &self,
        (binding, element): (u32, u32),
        ty: vk::DescriptorType,
        (array, stride, count): (*const u8, usize, u32),
        resolve: &impl Resolve,
    ) {
        use vk::DescriptorType as Type;
        let Some(binding) = self.layout.binding(binding) else { return self.taint() };
        if ty == Type::INLINE_UNIFORM_BLOCK {
            // Element and count are bytes here.
            return self.fill(binding.first_slot as usize, [Slot::Nothing]);
        }
        let first = binding.first_slot as usize + element as usize;
        let slot = |i: usize| {
            // SAFETY: by the caller; a template's data need not be aligned.
            unsafe {
                let place = array.wrapping_add(i * stride);
                match ty {
                    Type::SAMPLER => Slot::Nothing,
                    _ if array.is_null() => Slot::Unknown,
                    Type::STORAGE_BUFFER
                    | Type::UNIFORM_BUFFER
                    | Type::STORAGE_BUFFER_DYNAMIC
                    | Type::UNIFORM_BUFFER_DYNAMIC => {
                        let info = place.cast::<vk::DescriptorBufferInfo>().read_unaligned();
                        if info.buffer == vk::Buffer::null() {
                            return Slot::Nothing;
                        }
                        let size = crate::memory::size_of_range(info.range);
                        resolve.buffer(info.buffer, info.offset, size).map_or(Slot::Unknown, Slot::Bytes)
                    }
                    Type::STORAGE_TEXEL_BUFFER | Type::UNIFORM_TEXEL_BUFFER => {
                        match place.cast::<vk::BufferView>().read_unaligned() {
                            view if view == vk::BufferView::null() => Slot::Nothing,
                            view => resolve.view(view).map_or(Slot::Unknown, Slot::Bytes),
                        }
                    }
                    Type::COMBINED_IMAGE_SAMPLER
                    | Type::SAMPLED_IMAGE
                    | Type::STORAGE_IMAGE
                    | Type::INPUT_ATTACHMENT => {
                        let info = place.cast::<vk::DescriptorImageInfo>().read_unaligned();
                        if info.image_view == vk::ImageView::null() {
                            return Slot::Nothing;
                        }
                        Slot::Bytes(resolve.image(info.image_view))
                    }
                    _ => Slot::Unknown,
                }
            }
        };
        self.fill(first, (0..count as usize).map(slot));
    }

    fn fill(&self, first: usize, contents: impl IntoIterator<Item = Slot>) {
        self.put_slots(self.slots.iter().skip(first).zip(contents));
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
        // Collected first: the two may overlap. What the source keeps no slots for may be anything.
        let copied: Vec<Slot> = (start..start.saturating_add(copy.descriptor_count as usize))
            .take(self.slots.len())
            .map(|at| source.slots.get(at).map_or(Slot::Unknown, Cell::get))
            .collect();
        self.fill(to.first_slot as usize + copy.dst_array_element as usize, copied);
    }

    /// The bytes of `binding` where it is a single descriptor of ordinary memory that no dynamic offset moves, as most are:
    /// what [`Set::visit`] would say, in a third of the time. `None` says nothing.
    #[inline]
    pub fn single(&self, binding: u32, granule: u64) -> Option<Range> {
        let binding = self.layout.bindings.get(binding as usize).filter(|b| b.number == binding)?;
        if binding.count != 1 || binding.first_dynamic.is_some() {
            return None;
        }
        self.slots.get(binding.first_slot as usize)?.range(granule)
    }

    /// Calls `visit` for the descriptors of `binding`, each with its dynamic offset; all of them, or the `elements`
    /// named. Says whether the binding exists.
    pub fn visit(
        &self,
        binding: u32,
        elements: Option<&BTreeSet<u32>>,
        dynamic_offsets: &[u32],
        mut visit: impl FnMut(Slot, u64),
    ) -> bool {
        let Some(binding) = self.layout.binding(binding) else { return false };
        let count = self.count(binding);
        let mut each = |element: u32| {
            let offset = binding
                .first_dynamic
                .and_then(|d| dynamic_offsets.get((d as usize).saturating_add(element as usize)))
                .map_or(0, |offset| u64::from(*offset));
            match self.slots.get((binding.first_slot as usize).saturating_add(element as usize)) {
                Some(slot) if element < count => visit(slot.get().reached(binding), offset),
                _ => visit(Slot::Unknown, 0),
            }
        };
        match elements {
            Some(elements) => elements.iter().copied().for_each(&mut each),
            None => (0..count).for_each(&mut each),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk::Handle;
    use vk::DescriptorType as Type;

    /// Buffers whose allocation is their handle.
    struct ByHandle;

    impl Resolve for ByHandle {
        fn buffer(&self, buffer: vk::Buffer, offset: u64, size: Option<u64>) -> Option<Extent> {
            let memory = MemoryId(buffer.as_raw());
            Some(Extent::Bytes { memory, start: offset, size, buffer: (0, 1 << 20) })
        }

        fn view(&self, _: vk::BufferView) -> Option<Extent> {
            None
        }

        fn image(&self, _: vk::ImageView) -> Extent {
            Extent::Anywhere
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
                Slot::Bytes(Extent::Bytes { start, .. }) => Some(start + add),
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
    fn a_slot_comes_out_of_its_cell_as_it_went_in() {
        let bytes = |size| Extent::Bytes { memory: MemoryId(7), start: 1 << 40, size, buffer: (5, u64::MAX) };
        let cell = Cell::default();
        assert_eq!(cell.get(), Slot::Empty);
        let all = [Slot::Bytes(bytes(None)), Slot::Bytes(Extent::Anywhere), Slot::Nothing, Slot::Unknown];
        for slot in all.into_iter().chain([Slot::Empty, Slot::Bytes(bytes(Some(16)))]) {
            assert!(cell.set(slot), "{slot:?} was not there");
            assert_eq!(cell.get(), slot);
            assert!(!cell.set(slot), "{slot:?} was there");
        }
    }

    #[test]
    fn contents_have_a_name_that_changes_when_they_do_and_only_then() {
        let layout = Arc::new(SetLayout::new(&[(0, Type::STORAGE_BUFFER, 3)], false));
        let (a, b) = (Set::new(layout.clone()), Set::new(layout));
        assert_ne!(a.contents(), b.contents(), "two sets, though nothing is in either");
        let mut names = vec![a.contents()];
        let mut is_new = |set: &Set| {
            let name = set.contents();
            let new = !names.contains(&name);
            names.push(name);
            new
        };
        write(&a, 0, 0, &[1, 2, 3]);
        assert!(is_new(&a));
        write(&a, 0, 0, &[1, 2, 3]);
        assert!(!is_new(&a), "the same again");
        write(&a, 0, 2, &[4]);
        assert!(is_new(&a), "the last of three");
        write(&b, 0, 0, &[1, 2, 3]);
        let copy = vk::CopyDescriptorSet::default().descriptor_count(3);
        a.copy(&b, &copy);
        assert!(is_new(&a), "also if these were its contents before");
        a.copy(&b, &copy);
        assert!(!is_new(&a));
        a.taint();
        assert!(is_new(&a));
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
    fn a_single_descriptor_is_what_a_visit_sees_or_nothing() {
        let (storage, dynamic) = (Type::STORAGE_BUFFER, Type::STORAGE_BUFFER_DYNAMIC);
        let bytes = |memory, size| {
            Slot::Bytes(Extent::Bytes { memory: MemoryId(memory), start: 100, size, buffer: (64, 1000) })
        };
        let slots = [
            (bytes(7, Some(30)), true),
            (bytes(7, None), true),
            (bytes(7, Some(0)), true),
            (bytes(EXTERNAL.0, Some(30)), false),
            (Slot::Bytes(Extent::Anywhere), false),
            (Slot::Empty, false),
            (Slot::Nothing, false),
            (Slot::Unknown, false),
        ];
        for (bindings, single) in [
            (vec![(0, storage, 1)], true),
            (vec![(0, dynamic, 1)], false),
            (vec![(0, storage, 2)], false),
            // Not in its place: only a search would find it.
            (vec![(1, storage, 1), (3, storage, 1)], false),
        ] {
            let layout = Arc::new(SetLayout::new(&bindings, false));
            let number = bindings.last().unwrap().0;
            for (slot, ordinary) in slots {
                let set = Set::new(layout.clone());
                for place in &set.slots {
                    place.set(slot);
                }
                for granule in [1, 48, 64] {
                    let mut seen = Vec::new();
                    set.visit(number, None, &[], |slot, dynamic| {
                        seen.push(match slot {
                            Slot::Bytes(extent) => Some(extent.range(dynamic, granule)),
                            _ => None,
                        });
                    });
                    let found = set.single(number, granule);
                    assert_eq!(found.is_some(), single && ordinary, "{bindings:?} {slot:?}");
                    assert!(found.is_none() || seen == [found], "{found:?} is not {seen:?}");
                }
            }
        }
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
