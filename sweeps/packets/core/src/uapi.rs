//! The kernel calls that say where command streams are: numbers and fields, as bytes at offsets.
//!
//! A call is known by its number alone. The size that its request word carries says how much of the structure this
//! driver knows: structures only grow at their ends, so an older or newer driver differs there and nowhere else, and a
//! field beyond the end reads as zero, which is how the kernel itself treats it.
//!
//! Sources: Linux's include/uapi/drm/drm.h, amdgpu_drm.h and (since 6.16) asahi_drm.h. Only what is needed is here.

/// The type byte of every DRM request.
pub const DRM: u64 = b'd' as u64;
/// The first number that belongs to a driver.
pub const DRIVER: u8 = 0x40;

/// The number of a request word.
pub fn number(request: u64) -> u8 {
    request as u8
}

/// The bytes of the argument, as the request word has them.
pub fn size(request: u64) -> usize {
    (request >> 16 & 0x3fff) as usize
}

/// Whether it is a DRM request at all.
pub fn is_drm(request: u64) -> bool {
    request >> 8 & 0xff == DRM
}

/// DRM_IOCTL_VERSION: three i32, then name_len (8), name (16), and the date's and description's.
pub const VERSION: u8 = 0x00;
/// The request word of DRM_IOCTL_VERSION where pointers have 64 bits.
pub const VERSION_REQUEST: u64 = 3 << 30 | 64 << 16 | DRM << 8;
/// DRM_IOCTL_GEM_CLOSE: handle (0).
pub const GEM_CLOSE: u8 = 0x09;

/// Calls of amdgpu.
pub mod amdgpu {
    /// In: bo_size (0). Out: handle (0).
    pub const GEM_CREATE: u8 = 0x40;
    /// In: handle (0). Out: the offset for mmap (0).
    pub const GEM_MMAP: u8 = 0x41;
    /// In: ctx_id (0), bo_list_handle (4), num_chunks (8), flags (12), chunks (16): pointers to chunks.
    pub const CS: u8 = 0x44;
    /// return_pointer (0), return_size (8), query (12), for HW_IP_INFO type (16) and instance (20).
    pub const INFO: u8 = 0x45;
    /// handle (0), operation (8), flags (12), va_address (16), offset_in_bo (24), map_size (32).
    pub const GEM_VA: u8 = 0x48;
    /// Creates or frees a user queue, whose submissions pass the kernel by; op (0).
    pub const USERQ: u8 = 0x56;

    /// GEM_VA's operations.
    pub const VA_MAP: u32 = 1;
    /// Unmap exactly one mapping.
    pub const VA_UNMAP: u32 = 2;
    /// Unmap whatever there is in a range.
    pub const VA_CLEAR: u32 = 3;
    /// Map over whatever there is.
    pub const VA_REPLACE: u32 = 4;

    /// A chunk: chunk_id (0), length_dw (4), chunk_data (8).
    pub const CHUNK_BYTES: usize = 16;
    /// Its data: flags (4), va_start (8), ib_bytes (16), ip_type (20), ip_instance (24), ring (28).
    pub const CHUNK_IB: u32 = 1;
    /// Bytes of an IB chunk's data.
    pub const CHUNK_IB_BYTES: usize = 32;

    /// INFO's query whose answer begins with the major version of an IP block.
    pub const QUERY_HW_IP_INFO: u32 = 0x02;
    /// The graphics IP, which runs PM4.
    pub const IP_GFX: u32 = 0;
    /// The compute IP, which runs PM4.
    pub const IP_COMPUTE: u32 = 1;
    /// USERQ's operation that creates.
    pub const USERQ_CREATE: u32 = 1;
    /// GPU virtual addresses have 48 bits; above them the sign is extended.
    pub const VA_MASK: u64 = (1 << 48) - 1;
}

/// Calls of asahi.
pub mod asahi {
    /// param_group (0), pointer (8), size (16); behind the pointer, gpu_generation (8), num_clusters_total (28).
    pub const GET_PARAMS: u8 = 0x40;
    /// vm_id (0), num_binds (4), stride (8), userptr (16).
    pub const VM_BIND: u8 = 0x44;
    /// In: size (0). Out: handle (16).
    pub const GEM_CREATE: u8 = 0x45;
    /// handle (0). Out: offset (8).
    pub const GEM_MMAP_OFFSET: u8 = 0x46;
    /// vm_id (4). Out: queue_id (12).
    pub const QUEUE_CREATE: u8 = 0x48;
    /// cmdbuf (8), flags (16), queue_id (20), in_sync_count (24), out_sync_count (28), cmdbuf_size (32).
    pub const SUBMIT: u8 = 0x4a;

    /// In a binding's flags, with flags (0), handle (4), offset (8), range (16), addr (24): unbind instead.
    pub const BIND_UNBIND: u32 = 1;
    /// One page, over and over.
    pub const BIND_SINGLE_PAGE: u32 = 8;

    /// A command's header: cmd_type (0), size (2), vdm_barrier (4), cdm_barrier (6), each u16.
    pub const HEADER_BYTES: usize = 8;
    /// A render command.
    pub const CMD_RENDER: u16 = 0;
    /// A compute command: flags (0), sampler_count (4), cdm_ctrl_stream_base (8), cdm_ctrl_stream_end (16).
    pub const CMD_COMPUTE: u16 = 1;
    /// A barrier field that waits for nothing.
    pub const BARRIER_NONE: u16 = 0xffff;
}

/// Reads a little-endian u16; 0 beyond the end.
pub fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    bytes.get(offset..offset + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}

/// Reads a little-endian u32; 0 beyond the end.
pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..offset + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// Reads a little-endian u64; 0 beyond the end.
pub fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from(u32_at(bytes, offset)) | u64::from(u32_at(bytes, offset.saturating_add(4))) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_word_is_taken_apart() {
        // DRM_IOCTL_AMDGPU_CS: read and write, 24 bytes, 'd', 0x44.
        let request = 3 << 30 | 24 << 16 | DRM << 8 | 0x44;
        assert!(is_drm(request) && number(request) == amdgpu::CS && size(request) == 24);
        assert!(!is_drm(0x5401), "TCGETS");
        assert_eq!(VERSION_REQUEST, 0xc040_6400);
    }

    #[test]
    fn a_field_beyond_the_end_is_zero() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(u64_at(&bytes, 0), 0x0807_0605_0403_0201);
        assert_eq!((u64_at(&bytes, 4), u32_at(&bytes, 8), u16_at(&bytes, 7)), (0x0807_0605, 0, 0));
    }
}
