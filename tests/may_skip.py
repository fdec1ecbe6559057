"""The tests that may skip, and the machines and builds on which they may.

Another test that skips counts as failed in CI (tools/test_summary.py with
RINGLET_CI set). The conditions are computed here and not by the tests. So a test
that skips for another reason, or never runs, is found.
"""
import fnmatch
import os
import pathlib
import shutil
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parent.parent


def answers(*command):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, timeout=60,
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


class Build:
    """A meson build folder: what it was set up with."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        line = self.folder / "meson-private/cmd_line.txt"
        self.options = line.read_text() if line.exists() else ""

    def sanitized(self):
        return "b_sanitize = " in self.options and (
            "b_sanitize = none" not in self.options)

    def threads_sanitized(self):
        return "b_sanitize = thread" in self.options

    def static(self):
        return "static = true" in self.options.lower()

    def cross(self):
        return "cross_file" in self.options

    def big_endian(self):
        return "s390x" in self.options


def root(_):
    return os.geteuid() == 0


def not_root(_):
    return os.geteuid() != 0


def no_sodium(build):
    return "secure = disabled" in build.options or not answers(
        "pkg-config", "--exists", "libsodium")


def no_jpeg(build):
    return "jpeg = disabled" in build.options or not answers(
        "pkg-config", "--exists", "libjpeg")


def has_jpeg(build):
    return not no_jpeg(build)


def no_djpeg(build):
    return no_jpeg(build) or not answers("sh", "-c", "command -v djpeg")


def lacks_cpu_flag(build, flag):
    info = pathlib.Path("/proc/cpuinfo")
    return build.cross() or flag not in info.read_text().split()


def no_avx2(build):
    return lacks_cpu_flag(build, "avx2")


def no_aes(build):
    return lacks_cpu_flag(build, "aes")


def no_avx512(build):
    return lacks_cpu_flag(build, "avx512f")


def no_users(build):
    return not_root(build) or build.cross() or not answers(
        "unshare", "--user", "true")


def no_torch(build):
    return build.cross() or not answers("/usr/bin/python3", "-c", "import torch")


def no_compiler(build):
    return build.cross() or shutil.which("cc") is None


def no_cmake(_):
    return shutil.which("cmake") is None


def no_chromium(_):
    return not (shutil.which("chromium") or shutil.which("chromium-browser"))


def no_make(_):
    return shutil.which("make") is None


def no_static_cjson(build):
    """tools/deps.sh static had not fetched its source when this was set up."""
    pc = build.folder / "package/ringlet.pc"
    return pc.exists() and "-lcjson" in pc.read_text()


def no_mnist(_):
    return not (SOURCE / "../shared/data/mnist").exists()


def no_decimal_comma(build):
    if build.cross() or build.static():  # another C library's locales
        return True
    names = subprocess.run(["locale", "-a"], stdout=subprocess.PIPE,
                           text=True).stdout if shutil.which("locale") else ""
    return "de_DE" not in names


def inside(script, *namespaces):
    """True if the script succeeds in namespaces of its own."""
    command = ["unshare", "--mount", *namespaces]
    if os.geteuid() != 0:
        command += ["--user", "--map-root-user"]
    return answers(*command, "sh", "-c", script)


def no_mounts(build):
    return build.cross() or os.geteuid() != 0 or not inside(
        "mount -t tmpfs none /mnt")


def no_loop_mounts(build):
    return no_mounts(build) or shutil.which("mkfs.ext4") is None or (
        not answers("losetup", "--find"))


def no_mounts_of(kind):
    """A check: neither the kernel nor its modules support the disk's format."""
    def check(build):
        if no_loop_mounts(build) or shutil.which("mkfs." + kind) is None:
            return True
        known = pathlib.Path("/proc/filesystems").read_text().split()
        return kind not in known and not answers("modprobe", kind)
    return check


def no_networks(_):
    if not all(map(shutil.which, ("unshare", "nsenter", "ip", "nft", "tc"))):
        return True
    return not inside(
        "mount -t tmpfs none /run && ip netns add probe &&"
        " ip -n probe link add veth0 type veth peer name veth1 &&"
        " nsenter --net=/run/netns/probe nft add table inet t",
        "--net", "--pid", "--fork", "--kill-child", "--mount-proc")


def no_memory_cgroup(_):
    """None can be made below that of this process."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        number, kind, path = line.split(":", 2)
        if number == "0":
            parent, limit = "/sys/fs/cgroup" + path, "memory.max"
        elif kind == "memory":
            parent = "/sys/fs/cgroup/memory" + path
            limit = "memory.limit_in_bytes"
        else:
            continue
        folder = pathlib.Path(parent) / f"ringlet-probe-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        made = (folder / limit).exists()
        folder.rmdir()
        if made:
            return False
    return True


# A pattern of test names (suite.test of GoogleTest, ringlet.name of meson),
# why it may skip, and where.
MAY_SKIP = [
    ("AtomicFileTest.Open_TemporaryOfAnotherUser_WritesBesideIt",
     "only root can be another user", not_root),
    ("PosixFileSystemTest.CopyMode_FileOrLinkOfAnotherUser_StaysPrivate",
     "only root can be another user", not_root),
    ("AugmentationTest.EachLayer_SomeThousandDraws_EqualsKerasInNumPy",
     "a big-endian machine", Build.big_endian),
    ("CFileTest.*", "no compiler", no_compiler),
    ("ProgramTest.ExportTrain_AnyState_*", "no compiler", no_compiler),
    ("CTrainingTest.*", "no compiler, or no fused multiply-add of float32",
     lambda build: no_compiler(build) or build.big_endian() or no_avx2(build)),
    ("CInt8TrainingTest.*", "no compiler, or no fused multiply-add of float32",
     lambda build: no_compiler(build) or build.big_endian() or no_avx2(build)),
    ("CsvTest.Numbers_LocaleWithADecimalComma_AreReadTheSame",
     "no locale with a decimal comma", no_decimal_comma),
    ("FootprintTest.*", "a sanitizer takes more", Build.sanitized),
    ("FootprintTest.Train_InAMemoryCgroup_BothModelsFit",
     "no memory cgroup", no_memory_cgroup),
    ("GemmTest.Multiply_NoMemoryLeft_NeedsNone", "a sanitizer takes more memory",
     Build.sanitized),
    ("ProgramTest.LaunchRestart_LastSaveFailed_NextStartWritesTheFile",
     "may not mount", no_mounts),
    ("ProgramTest.File_PermissionDenied_ErrorNamesIt", "root may read and write all", root),
    ("RealDiskTest.Save_DiskIsFull_KeepsTheOldCheckpoint", "may not mount",
     no_mounts),
    ("RealDiskTest.Save_Ext4ShutDown_LosesNothingDurable",
     "may not mount a file", no_loop_mounts),
    ("RealDiskTest.Commit_PowerCutOnExt4_TheNewFileIsThere",
     "may not mount a file", no_loop_mounts),
    ("RealDiskTest.Commit_PowerCutOnVfat_TheNewFileIsThere",
     "may not mount vfat", no_mounts_of("vfat")),
    ("RealDiskTest.Commit_PowerCutOnExfat_TheNewFileIsThere",
     "may not mount exfat", no_mounts_of("exfat")),
    ("LauncherTest.Key_CannotBeMade_IsAWarning",
     "ThreadSanitizer needs a file of its own", Build.threads_sanitized),
    ("LauncherTest.Process_LeftTheGroup_*", "an emulator does not adopt orphans",
     Build.cross),
    ("ModelMemoryTest.Reserve_NoMemory_NamesWhatTakesIt",
     "AddressSanitizer ends a program that asks", Build.sanitized),
    ("ModelMemoryTest.Output_AfterReserveFoundNoMemory_IsNull",
     "AddressSanitizer ends a program that asks", Build.sanitized),
    ("JpegTest.Read_BuildWithoutLibjpeg_NamesTheOption", "a build with libjpeg", has_jpeg),
    ("JpegTest.Decode_EachKind_EqualsDjpeg",
     "djpeg is missing (libjpeg-turbo-progs)", no_djpeg),
    ("JpegTest.*", "a build without libjpeg", no_jpeg),
    ("PictureLimitsTest.*", "a build without libjpeg", no_jpeg),
    ("PictureLimitsTest.Decode_JpegWithoutMemory_IsNotCalledDamaged",
     "the limit would be the emulator's", Build.cross),
    ("PictureLimitsTest.Decode_JpegWithoutMemory_IsNotCalledDamaged",
     "a sanitizer takes more memory", Build.sanitized),
    ("NamesTest.*", "a static program takes no names", Build.static),
    ("RelaysNameTest.*", "a static program", Build.static),
    ("RingCollectiveTest.Resolver_Slow_DelaysNoOtherRank",
     "a static program takes no names", Build.static),
    ("SafetensorsTest.Encode_AnyHost_IsLittleEndian",
     "a big-endian machine", Build.big_endian),
    ("Streams/DroppedOperationTest.EveryCut_EveryTarget_RestIsDiscarded*",
     "a build without libsodium", no_sodium),
    ("OwnAddress/ReformTest.*", "a static program takes no names", Build.static),
    ("SealedFilesTest.*", "a build without libsodium", no_sodium),
    ("Sealed/CheckpointCrashTest.*", "a build without libsodium", no_sodium),
    ("ProgramTest.Sealed*", "a build without libsodium", no_sodium),
    ("ProgramTest.Run_WrongInAJobWithAKey_*", "a build without libsodium",
     no_sodium),
    ("ProgramTest.Worker_WithoutItsKeyFile_*", "a build without libsodium",
     no_sodium),
    ("StatusTest.Error_NoMemoryOnSeveralThreads_KeepsTheCodeOfEach",
     "a sanitizer takes more memory", Build.sanitized),
    ("VerifiedPointTest.Reserve_NoMemory_EndsTheFit",
     "a sanitizer takes more memory", Build.sanitized),
    ("VerifiedPointTest.Reserve_NoMemory_EndsTheFit",
     "the limit would be the emulator's", Build.cross),
    ("OtherListenerTest.Listener_OfAnotherUser_GetsNoByte", "only root can be another user", not_root),
    ("OtherListenerTest.Guest_OfAnotherUser_IsNotAnswered",
     "only root can be another user", not_root),
    ("OtherListenerTest.LocalSocket_UserWithoutANumber_IsNotTrusted", "no users of its own",
     # which has a thread, with which a process cannot leave its users
     lambda build: no_users(build) or build.threads_sanitized()),
    ("KeyFileTest.Keys_InMemory_AreLeftOutOfCoreDumps", "no /proc/self/smaps",
     Build.cross),
    ("KeyFileTest.LauncherKeys_DescriptorIsClosed_AreGone",
     "no memory without a name", Build.cross),
    ("NumberTextTest.Text_LocaleHasADecimalComma_HasAPoint",
     "no locale with a decimal comma", no_decimal_comma),
    ("TorchTest.*", "no python3-torch", no_torch),
    ("ExactGridTest.ExactLoops_EveryVectorWidth_HaveTheSameBits",
     "a CPU without AVX2", no_avx2),
    ("DigestsTest.Job_FusedAndUnfusedWorkers_IsReported",
     "a CPU with one class of arithmetic", no_avx2),
    ("NoiseTest.Rekey_OfAesGcm_SealsWithTheNewKey",
     "a CPU without AES instructions", no_aes),
    ("PosixFileSystemTest.Commit_GroupCannotBeKept_DropsItsPermissions",
     "only root can give files away", not_root),
    ("Widths/FunctionLoopsTest.*", "a CPU without AVX2 or AVX-512", no_avx512),
    ("TrainingTest.Fit_KerasTutorialOnMnist_LearnsAsInPyTorch",
     "no MNIST in ../shared/data/mnist", no_mnist),
    ("ringlet.board_samples", "no compiler", no_compiler),
    ("ringlet.install_cmake", "no cmake", no_cmake),
    ("ringlet.install_static", "no static cJSON", no_static_cjson),
    ("ringlet.report_browser", "no chromium", no_chromium),
    ("ringlet.make_install", "no make", no_make),
    ("ringlet.elastic_faults*", "no network namespaces, tc or nftables",
     no_networks),
    ("ringlet.doctor", "no network namespaces, tc or nftables", no_networks),
    ("ringlet.network", "no network namespaces, tc or nftables", no_networks),
    ("ringlet.tiny_parity", "no python3-torch", no_torch),
    ("ringlet.static_chroot", "only root may change the root directory",
     not_root),
]


def allowed(name, build):
    """True if the test may skip in this Build."""
    return any(fnmatch.fnmatchcase(name, pattern) and condition(build)
               for pattern, _, condition in MAY_SKIP)
