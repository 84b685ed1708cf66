package annanode

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// virtual is how many places in a ring a node or thread has.
const virtual = 3000

// hash is std::hash<std::string> of a 64-bit libstdc++: MurmurHash64A.
func hash[T string | []byte](s T) uint64 {
	const mul = 0xc6a4a7935bd1e995
	mix := func(v uint64) uint64 { return v ^ v>>47 }
	h := 0xc70f6907 ^ uint64(len(s))*mul
	for ; len(s) >= 8; s = s[8:] {
		word := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		h = (h ^ mix(word*mul)*mul) * mul
	}
	if len(s) > 0 {
		var tail [8]byte
		copy(tail[:], s)
		h = (h ^ binary.LittleEndian.Uint64(tail[:])) * mul
	}
	return mix(mix(h) * mul)
}

// globalHash places keys and nodes in the ring of a tier.
func globalHash(s string) uint64 {
	var short [128]byte // so that nothing is allocated
	return uint64(uint32(hash(append(append(short[:0], "GLOBAL"...), s...))))
}

// member is a node in a ring: its private address is what it is known by.
type member struct {
	wire.Server
	count int64
}

type place struct {
	hash  uint64
	owner int32
}

// ring is a consistent hash ring: of nodes (owner is an index of members), or of
// the threads of a node (owner is the thread).
type ring struct {
	members []*member // nil where one has left
	count   int
	places  []place
}

// join adds a node and tells whether that is news: a node known already is news
// only with a greater count, and keeps its public address.
func (r *ring) join(s wire.Server, count int64) bool {
	for _, m := range r.members {
		if m != nil && m.Private == s.Private {
			if m.count >= count {
				return false
			}
			m.count = count
			return true
		}
	}
	r.members = append(r.members, &member{s, count})
	r.count++
	r.add(int32(len(r.members)-1), func(n int) uint64 {
		return globalHash(s.Private + ":0_" + strconv.Itoa(n))
	})
	return true
}

func (r *ring) depart(s wire.Server) {
	gone := map[uint64]bool{}
	for n := range virtual {
		gone[globalHash(s.Private+":0_"+strconv.Itoa(n))] = true
	}
	r.places = slices.DeleteFunc(r.places, func(p place) bool { return gone[p.hash] })
	for i, m := range r.members {
		if m != nil && m.Private == s.Private {
			r.members[i] = nil
			r.count--
		}
	}
}

// threadRing is the ring of a node's threads, the same in every node.
func threadRing(threads int) *ring {
	r := &ring{count: threads}
	for tid := range threads {
		r.add(int32(tid), func(n int) uint64 { return hash(strconv.Itoa(tid) + "_" + strconv.Itoa(n)) })
	}
	return r
}

// add gives an owner its places; one that is taken stays with whom it has.
func (r *ring) add(owner int32, at func(n int) uint64) {
	for n := range virtual {
		r.places = append(r.places, place{at(n), owner})
	}
	slices.SortStableFunc(r.places, func(a, b place) int { return cmp.Compare(a.hash, b.hash) })
	r.places = slices.CompactFunc(r.places, func(a, b place) bool { return a.hash == b.hash })
}

// from is the index of the first place at or after a hash.
func (r *ring) from(h uint64) int {
	i, _ := slices.BinarySearchFunc(r.places, h, func(p place, h uint64) int { return cmp.Compare(p.hash, h) })
	if i == len(r.places) {
		i = 0
	}
	return i
}

// owners are the first n distinct owners after a hash. More than there are: Anna
// looks for them for ever, and so the answer is false.
func (r *ring) owners(h uint64, n uint32) ([]int32, bool) {
	if n == 0 || len(r.places) == 0 {
		return nil, true
	}
	if int(n) > r.count {
		return nil, false
	}
	found := make([]int32, 0, n)
	for i := r.from(h); len(found) < int(n); i = (i + 1) % len(r.places) {
		if owner := r.places[i].owner; !slices.Contains(found, owner) {
			found = append(found, owner)
		}
	}
	return found, true
}
