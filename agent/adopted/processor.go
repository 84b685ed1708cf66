package adopted

import (
	"hash/fnv"
	"math/bits"
	"os"
	"syscall"
	"unsafe"
)

// processors is a set of processors, as sched_setaffinity(2) takes it.
type processors [16]uint64

// one keeps a single processor of a set, another for another pod; an empty set stays that.
func (p processors) one(pod string) (kept processors) {
	count := 0
	for _, word := range p {
		count += bits.OnesCount64(word)
	}
	if count == 0 {
		return p
	}
	hash := fnv.New32a()
	hash.Write([]byte(pod))
	skip := int(hash.Sum32() % uint32(count))
	for i, word := range p {
		for ; word != 0; word &= word - 1 {
			if skip == 0 {
				kept[i] = word & -word
				return kept
			}
			skip--
		}
	}
	return kept
}

// oneProcessor keeps this thread, and what it starts, on one processor of those that it may
// use. Where all containers of a pod have a limit of processor time, ours take from that of
// the pod, whatever their priority, and more than one of them could take all of it.
func oneProcessor() error {
	var may processors
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(may), uintptr(unsafe.Pointer(&may))); errno != 0 {
		return errno
	}
	one := may.one(os.Getenv("POD_UID"))
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(one), uintptr(unsafe.Pointer(&one))); errno != 0 {
		return errno
	}
	return nil
}
