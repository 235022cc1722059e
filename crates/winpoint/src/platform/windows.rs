//! Windows. All unsafe code of this crate is here and in `completion.rs`, and every call is one of Microsoft's documented interfaces.
#![expect(unsafe_code, reason = "calls of Windows")]

use super::{PlatformError, PriorityClass, SystemFacts};
use crate::doctor::Reader;
use std::ffi::{CStr, c_char, c_void};
use std::io;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::sync::OnceLock;

pub(super) const CLOCK: &str = "QueryPerformanceCounter";

type Handle = *mut c_void;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn QueryPerformanceCounter(count: *mut i64) -> i32;
    fn QueryPerformanceFrequency(frequency: *mut i64) -> i32;
    fn GetCurrentProcess() -> Handle;
    fn GetCurrentThread() -> Handle;
    fn SetPriorityClass(process: Handle, class: u32) -> i32;
    fn GetPriorityClass(process: Handle) -> u32;
    fn SetThreadAffinityMask(thread: Handle, mask: usize) -> usize;
    fn GetModuleHandleW(name: *const u16) -> Handle;
    fn GetProcAddress(module: Handle, name: *const c_char) -> *const c_void;
    fn LocalFree(memory: Handle) -> Handle;
}

#[link(name = "avrt")]
unsafe extern "system" {
    fn AvSetMmThreadCharacteristicsW(task: *const u16, index: *mut u32) -> Handle;
}

#[link(name = "advapi32")]
unsafe extern "system" {
    fn RegGetValueW(
        key: Handle,
        sub_key: *const u16,
        value: *const u16,
        flags: u32,
        kind: *mut u32,
        data: *mut c_void,
        bytes: *mut u32,
    ) -> i32;
}

#[link(name = "powrprof")]
unsafe extern "system" {
    fn PowerGetActiveScheme(root: Handle, scheme: *mut *mut Guid) -> u32;
}

#[link(name = "iphlpapi")]
unsafe extern "system" {
    fn GetIpAddrTable(table: *mut u32, bytes: *mut u32, sorted: i32) -> u32;
    fn GetIfEntry(row: *mut InterfaceRow) -> u32;
}

#[link(name = "ntdll")]
unsafe extern "system" {
    fn RtlGetVersion(version: *mut OsVersion) -> i32;
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Guid(u32, u16, u16, [u8; 8]);

/// RTL_OSVERSIONINFOW.
#[repr(C)]
struct OsVersion {
    size: u32,
    major: u32,
    minor: u32,
    build: u32,
    platform: u32,
    service_pack: [u16; 128],
}

/// MIB_IFROW.
#[repr(C)]
struct InterfaceRow {
    name: [u16; 256],
    index: u32,
    kind: u32,
    mtu: u32,
    rest: [u8; 336],
}

/// HKEY_LOCAL_MACHINE: winreg.h extends the number 0x80000002 by its sign.
const LOCAL_MACHINE: Handle = 0x8000_0002_u32.cast_signed() as isize as Handle;
const RRF_RT_REG_DWORD: u32 = 0x10;

/// Zero-terminated UTF-16.
fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

fn refused(call: &'static str, remedy: &'static str) -> PlatformError {
    PlatformError::Call { call, cause: io::Error::last_os_error(), remedy }
}

#[inline]
pub(super) fn ticks() -> u64 {
    let mut count = 0;
    // SAFETY: the place is ours. The call never fails on Windows XP or later, as its reference says.
    unsafe { QueryPerformanceCounter(&raw mut count) };
    count.cast_unsigned()
}

pub(super) fn ticks_per_second() -> u64 {
    static FREQUENCY: OnceLock<u64> = OnceLock::new();
    *FREQUENCY.get_or_init(|| {
        let mut frequency = 0;
        // SAFETY: the place is ours. The frequency is fixed at boot.
        unsafe { QueryPerformanceFrequency(&raw mut frequency) };
        frequency.cast_unsigned().max(1)
    })
}

pub(super) fn set_priority_class(class: PriorityClass) -> Result<(), PlatformError> {
    let wanted = match class {
        PriorityClass::Normal => 0x20,
        PriorityClass::High => 0x80,
        PriorityClass::Realtime => 0x100,
    };
    const REMEDY: &str = "run as administrator, or use --priority high";
    // SAFETY: the handle of this process needs no closing.
    let (done, got) = unsafe {
        let process = GetCurrentProcess();
        (SetPriorityClass(process, wanted), GetPriorityClass(process))
    };
    if done == 0 {
        return Err(refused("SetPriorityClass", REMEDY));
    }
    // Without the privilege Windows gives the next lower class and says that all is well.
    if got != wanted {
        let cause = io::Error::other(format!("Windows gave class {got:#x} and not {wanted:#x}"));
        return Err(PlatformError::Call { call: "SetPriorityClass", cause, remedy: REMEDY });
    }
    Ok(())
}

pub(super) fn pin(cpu: u32) -> Result<(), PlatformError> {
    let mask = 1_usize.checked_shl(cpu).ok_or(PlatformError::NoSuchCpu(cpu))?;
    // SAFETY: the handle of this thread needs no closing.
    let before = unsafe { SetThreadAffinityMask(GetCurrentThread(), mask) };
    if before == 0 {
        return Err(refused("SetThreadAffinityMask", "name a CPU that the machine has and the process may use"));
    }
    Ok(())
}

pub(super) fn join_mmcss(task: &str) -> Result<(), PlatformError> {
    let name = wide(task);
    let mut index = 0;
    // SAFETY: the name ends with a zero, the index is ours. The thread leaves the task when it ends.
    let handle = unsafe { AvSetMmThreadCharacteristicsW(name.as_ptr(), &raw mut index) };
    if handle.is_null() {
        return Err(refused(
            "AvSetMmThreadCharacteristics",
            "use a task of the registry's list (Pro Audio, Games …), and see that the service MMCSS runs",
        ));
    }
    Ok(())
}

/// The version of Wine; absent on Windows.
fn wine_version() -> Option<String> {
    let module = wide("ntdll.dll");
    // SAFETY: both names end with a zero; ntdll is part of every process and is never unloaded.
    let function = unsafe { GetProcAddress(GetModuleHandleW(module.as_ptr()), c"wine_get_version".as_ptr()) };
    if function.is_null() {
        return None;
    }
    // SAFETY: Wine alone exports this name, as a function without arguments that gives a text that it owns.
    let version = unsafe {
        let function: unsafe extern "C" fn() -> *const c_char = std::mem::transmute(function);
        CStr::from_ptr(function())
    };
    Some(version.to_string_lossy().into_owned())
}

pub(super) fn mtu(address: Ipv4Addr) -> Option<u32> {
    /// Words of a MIB_IPADDRROW: the address, the number of its interface, and four more.
    const ROW: usize = 6;
    // Room for 682 addresses behind their count.
    let mut table = vec![0_u32; 4096];
    let mut bytes = 4 * 4096;
    // SAFETY: the table has room for the bytes that it is said to have.
    if unsafe { GetIpAddrTable(table.as_mut_ptr(), &raw mut bytes, 0) } != 0 {
        return None;
    }
    let (count, rows) = table.split_first()?;
    let rows = rows.chunks_exact(ROW).take(usize::try_from(*count).ok()?);
    let index = rows.filter_map(|row| match row {
        [of, index, ..] if of.to_ne_bytes() == address.octets() => Some(*index),
        _ => None,
    });
    let mut row = InterfaceRow { name: [0; 256], index: index.last()?, kind: 0, mtu: 0, rest: [0; 336] };
    // SAFETY: the row is ours and names an interface by its number.
    (unsafe { GetIfEntry(&raw mut row) } == 0).then_some(row.mtu)
}

pub(super) fn facts() -> SystemFacts {
    let mut version = OsVersion {
        size: u32::try_from(size_of::<OsVersion>()).unwrap_or(0),
        major: 0,
        minor: 0,
        build: 0,
        platform: 0,
        service_pack: [0; 128],
    };
    // SAFETY: the structure is ours and says its size.
    unsafe { RtlGetVersion(&raw mut version) };
    let release = format!("{}.{}.{}", version.major, version.minor, version.build);
    let wine = wine_version();
    let os = match &wine {
        Some(wine) => format!("Wine {wine} as Windows {release}"),
        None => format!("Windows {release}"),
    };
    SystemFacts { os, release: Some(release), wine, hostname: std::env::var("COMPUTERNAME").ok() }
}

fn dword(key: &str, value: &str) -> Option<u32> {
    let (key, value) = (wide(key), wide(value));
    let mut data = 0_u32;
    let mut bytes = 4_u32;
    // SAFETY: names end with a zero, data has room for the bytes it says. Nothing is opened or changed.
    let failed = unsafe {
        RegGetValueW(
            LOCAL_MACHINE,
            key.as_ptr(),
            value.as_ptr(),
            RRF_RT_REG_DWORD,
            null_mut(),
            (&raw mut data).cast(),
            &raw mut bytes,
        )
    };
    (failed == 0).then_some(data)
}

fn power_scheme() -> Option<String> {
    let mut scheme: *mut Guid = null_mut();
    // SAFETY: the place is ours; the root must be null.
    let failed = unsafe { PowerGetActiveScheme(null_mut(), &raw mut scheme) };
    if failed != 0 || scheme.is_null() {
        return None;
    }
    // SAFETY: the call gave a GUID that the caller frees with LocalFree.
    let guid = unsafe {
        let guid = *scheme;
        LocalFree(scheme.cast());
        guid
    };
    let Guid(a, b, c, [d, e, rest @ ..]) = guid;
    let tail: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{a:08x}-{b:04x}-{c:04x}-{d:02x}{e:02x}-{tail}"))
}

fn tcp_global() -> Option<String> {
    let mut command = Command::new("netsh");
    let command = command.args(["interface", "tcp", "show", "global"]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(super) fn reader() -> Option<Reader> {
    Some(Reader { dword, power_scheme, tcp_global })
}
