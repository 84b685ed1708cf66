package wire

import (
	"fmt"
	"strconv"
)

// Lattice is the type of a value: how Anna merges two of them.
type Lattice int32

// None is no type: a key that is not there, and the answer to a PUT that Anna has
// refused without an error.
const (
	None             Lattice = 0
	TypeLWW          Lattice = 1
	TypeSet          Lattice = 2
	TypeSingleCausal Lattice = 3
	TypeMultiCausal  Lattice = 4
	TypeOrderedSet   Lattice = 5
	TypePriority     Lattice = 6
)

var latticeNames = []string{"NONE", "LWW", "SET", "SINGLE_CAUSAL", "MULTI_CAUSAL", "ORDERED_SET", "PRIORITY"}

// Lattices are the types a value can have.
var Lattices = []Lattice{TypeLWW, TypeSet, TypeSingleCausal, TypeMultiCausal, TypeOrderedSet, TypePriority}

func (l Lattice) String() string { return name(latticeNames, int32(l)) }

// Known tells whether it is a type that a value can have.
func (l Lattice) Known() bool { return l > None && int(l) < len(latticeNames) }

// ParseLattice reads what String writes.
func ParseLattice(text string) (Lattice, error) {
	for i, known := range latticeNames {
		if known == text {
			return Lattice(i), nil
		}
	}
	return None, fmt.Errorf("%q is not a lattice type of Anna", text)
}

// Code is what Anna says of a key in an answer.
type Code int32

// LatticeError is never sent: a refused PUT is answered with NoError and the type
// None.
const (
	NoError      Code = 0
	KeyDNE       Code = 1
	WrongThread  Code = 2
	Timeout      Code = 3
	LatticeError Code = 4
	NoServers    Code = 5
)

var codeNames = []string{"NO_ERROR", "KEY_DNE", "WRONG_THREAD", "TIMEOUT", "LATTICE", "NO_SERVERS"}

func (c Code) String() string { return name(codeNames, int32(c)) }

// Kind is what a request wants.
type Kind int32

// There is no request to delete a key.
const (
	Get Kind = 1
	Put Kind = 2
)

func (k Kind) String() string { return name([]string{"RT_UNSPECIFIED", "GET", "PUT"}, int32(k)) }

// Tier is a group of nodes that keep keys in the same way.
type Tier int32

// Routing nodes keep no keys; they are a tier in messages only.
const (
	Memory  Tier = 1
	Disk    Tier = 2
	Routing Tier = 3
)

var tierNames = []string{"TIER_UNSPECIFIED", "MEMORY", "DISK", "ROUTING"}

func (t Tier) String() string { return name(tierNames, int32(t)) }

// ParseTier reads what String writes.
func ParseTier(text string) (Tier, error) {
	for i, known := range tierNames {
		if known == text && i > 0 {
			return Tier(i), nil
		}
	}
	return 0, fmt.Errorf("%q is not a tier of Anna: MEMORY, DISK or ROUTING", text)
}

// name is the name of a number, or the number where it has none.
func name(names []string, number int32) string {
	if number >= 0 && int(number) < len(names) {
		return names[number]
	}
	return strconv.Itoa(int(number))
}
