/* A NIC with a clock of its own, as far as a program can tell: this library stands between it and the C library. What the
 * kernel stamps in software comes out as stamps of the NIC, in the time of a made-up clock that leads the wall clock by
 * NIC_LEAD ns and gains NIC_PPM parts per million; /dev/ptp7 can be compared with the wall clock as NIC_WAY says. With
 * NIC_ONLY_SENT it stamps only what is sent. The structures and numbers are those of the kernel's own headers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <linux/ptp_clock.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define START 1700000000000000000LL

static int device = -1;

static long long real_now(void)
{
    static __typeof__(&clock_gettime) next;
    if (!next) next = NEXT(clock_gettime);
    struct timespec now;
    next(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* The NIC's clock at a time of the wall clock. */
static long long nic(long long wall)
{
    const char *lead = getenv("NIC_LEAD"), *ppm = getenv("NIC_PPM");
    /* From the last full 1,000 s, so that little is gained and a double holds it. */
    double since = (double)((wall - START) % 1000000000000LL);
    return wall + (lead ? atoll(lead) : 0) + (long long)(since * (ppm ? atof(ppm) : 0) * 1e-6);
}

static struct ptp_clock_time at(long long ns)
{
    struct ptp_clock_time time = { .sec = ns / 1000000000LL, .nsec = (unsigned)(ns % 1000000000LL) };
    return time;
}

/* Closed ones leave their number to others. */
static int is_device(int fd)
{
    struct stat found;
    return device >= 0 && fd == device && fstat(fd, &found) == 0 && S_ISCHR(found.st_mode);
}

static int way(const char *name)
{
    const char *best = getenv("NIC_WAY");
    return best && strcmp(best, name) == 0;
}

/* Of what is received only PTP packets have stamps. */
static int only_sent(void)
{
    return getenv("NIC_ONLY_SENT") != NULL;
}

int open64(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, ...);
    if (!next) next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    if (strcmp(path, "/dev/ptp7") != 0) return next(path, flags, mode);
    return device = next("/dev/null", flags, mode);
}

int clock_gettime(clockid_t id, struct timespec *time)
{
    static __typeof__(&clock_gettime) next;
    if (!next) next = NEXT(clock_gettime);
    if (device < 0 || id != (clockid_t)((~device << 3) | 3)) return next(id, time);
    long long now = nic(real_now());
    *time = (struct timespec) { .tv_sec = now / 1000000000LL, .tv_nsec = now % 1000000000LL };
    return 0;
}

static int compare(unsigned long request, void *data)
{
    if (request == PTP_SYS_OFFSET_PRECISE && way("precise")) {
        struct ptp_sys_offset_precise *told = data;
        long long now = real_now();
        told->device = at(nic(now));
        told->sys_realtime = at(now);
        return 0;
    }
    if (request == PTP_SYS_OFFSET_EXTENDED && way("extended")) {
        struct ptp_sys_offset_extended *told = data;
        for (unsigned sample = 0; sample < told->n_samples; sample++) {
            told->ts[sample][0] = at(real_now());
            told->ts[sample][1] = at(nic(real_now()));
            told->ts[sample][2] = at(real_now());
        }
        return 0;
    }
    if (request == PTP_SYS_OFFSET && way("basic")) {
        struct ptp_sys_offset *told = data;
        for (unsigned sample = 0; sample < told->n_samples; sample++) {
            told->ts[2 * sample] = at(real_now());
            told->ts[2 * sample + 1] = at(nic(real_now()));
        }
        told->ts[2 * told->n_samples] = at(real_now());
        return 0;
    }
    errno = ENOTTY;
    return -1;
}

int ioctl(int fd, unsigned long request, ...)
{
    static int (*next)(int, unsigned long, ...);
    if (!next) next = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
    va_list more;
    va_start(more, request);
    void *data = va_arg(more, void *);
    va_end(more);
    request &= 0xffffffffUL;
    if (is_device(fd)) return compare(request, data);
    if (request == SIOCETHTOOL) {
        struct ethtool_ts_info *info = (void *)((struct ifreq *)data)->ifr_data;
        if (info->cmd == ETHTOOL_GET_TS_INFO) {
            info->so_timestamping = SOF_TIMESTAMPING_TX_HARDWARE | SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
            info->phc_index = 7;
            if (only_sent()) info->rx_filters = 1 << HWTSTAMP_FILTER_NONE | 1 << HWTSTAMP_FILTER_PTP_V2_EVENT;
            return 0;
        }
    }
    if (request == SIOCGHWTSTAMP) {
        struct hwtstamp_config *config = (void *)((struct ifreq *)data)->ifr_data;
        config->tx_type = HWTSTAMP_TX_ON;
        config->rx_filter = only_sent() ? HWTSTAMP_FILTER_NONE : HWTSTAMP_FILTER_ALL;
        return 0;
    }
    return next(fd, request, data);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    static __typeof__(&setsockopt) next;
    if (!next) next = NEXT(setsockopt);
    if (level != SOL_SOCKET || name != SO_TIMESTAMPING) return next(fd, level, name, value, length);
    unsigned asked = *(const unsigned *)value, given = asked & (SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY);
    if (asked & SOF_TIMESTAMPING_TX_HARDWARE) given |= SOF_TIMESTAMPING_TX_SOFTWARE;
    if (asked & SOF_TIMESTAMPING_RX_HARDWARE) given |= SOF_TIMESTAMPING_RX_SOFTWARE;
    if (only_sent()) given |= asked & SOF_TIMESTAMPING_RX_SOFTWARE;
    if (asked & SOF_TIMESTAMPING_RAW_HARDWARE) given |= SOF_TIMESTAMPING_SOFTWARE;
    return next(fd, level, name, &given, sizeof given);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    static __typeof__(&recvmsg) next;
    if (!next) next = NEXT(recvmsg);
    ssize_t done = next(fd, message, flags);
    if (done < 0 || (only_sent() && !(flags & MSG_ERRQUEUE))) return done;
    for (struct cmsghdr *entry = CMSG_FIRSTHDR(message); entry; entry = CMSG_NXTHDR(message, entry)) {
        if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SO_TIMESTAMPING) continue;
        struct scm_timestamping stamps;
        memcpy(&stamps, CMSG_DATA(entry), sizeof stamps);
        long long stamped = nic(stamps.ts[0].tv_sec * 1000000000LL + stamps.ts[0].tv_nsec);
        memset(&stamps, 0, sizeof stamps);
        stamps.ts[2].tv_sec = stamped / 1000000000LL;
        stamps.ts[2].tv_nsec = stamped % 1000000000LL;
        memcpy(CMSG_DATA(entry), &stamps, sizeof stamps);
    }
    return done;
}
