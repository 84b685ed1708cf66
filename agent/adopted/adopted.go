// Package adopted is what the agent does otherwise in the containers that are added to a
// pod that runs (operations/adopt). They have no volumes, no resources and no ports of
// their own, cannot be changed, and are never started again once they have ended.
//
//	adopted.go   what such a container is told
//	place.go     what is elsewhere in files comes in variables
//	bound.go     what keeps the container small, as no limits can be given to it
//	seat.go      of a role one container serves at a time: the newest
//	talk.go      what the containers of a pod say to each other
//	install.go   the agent's binary, on a volume of the pod, until it was taken
//	pressure.go  no memory is taken that the database or the node needs
//	memory.go    how much there is, and how much is taken
package adopted

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// The roles of containers that serve (patches.Role).
const (
	RoleAgent    = "agent"
	RoleSnapshot = "snapshot"
	RoleMedusa   = "medusa"
)

// Environment is what a container of an adopted pod is told (patches/adoptnames.go).
type Environment struct {
	PodUID string
	Number int    // of the container, above 0
	Memory int64  // in bytes, what it is to keep itself below; 0 where nothing is said
	Dir    string // where the agent's binary is brought; empty where it is in the image
	Takers []Taker
}

// Is tells whether this is a container of an adopted pod.
func Is() bool { return os.Getenv("STATEGRAFT_ADOPTED") != "" }

// Read reads the variables. The error names the one that is wrong; what is right is in
// the Environment all the same.
func Read() (Environment, error) {
	e := Environment{PodUID: os.Getenv("POD_UID"), Dir: os.Getenv("STATEGRAFT_ADOPTED_DIR")}
	var problems []error
	if e.PodUID == "" {
		problems = append(problems, errors.New("POD_UID is missing"))
	}
	var err error
	if e.Number, err = strconv.Atoi(os.Getenv("STATEGRAFT_ADOPTED")); err != nil || e.Number < 1 {
		problems = append(problems, fmt.Errorf("STATEGRAFT_ADOPTED is %q, and not the container's number", os.Getenv("STATEGRAFT_ADOPTED")))
	}
	if text := os.Getenv("STATEGRAFT_MEMORY"); text != "" {
		if e.Memory, err = strconv.ParseInt(text, 10, 64); err != nil || e.Memory < 0 {
			e.Memory = 0
			problems = append(problems, fmt.Errorf("STATEGRAFT_MEMORY is %q, and not a number of bytes", text))
		}
	}
	if e.Takers, err = parseTakers(e.PodUID, os.Getenv("STATEGRAFT_ADOPTED_TAKERS")); err != nil {
		problems = append(problems, err)
	}
	return e, errors.Join(problems...)
}

// Taker is a container that takes the agent's binary.
type Taker struct {
	PodUID string
	Role   string
	Number int
}

func (t Taker) String() string { return fmt.Sprintf("stategraft-%s-%d", t.Role, t.Number) }

// parseTakers reads "snapshot-2 medusa-3".
func parseTakers(podUID, text string) (takers []Taker, err error) {
	for _, word := range strings.Fields(text) {
		role, number, _ := strings.Cut(word, "-")
		n, bad := strconv.Atoi(number)
		if bad != nil || n < 1 || role == "" {
			err = errors.Join(err, fmt.Errorf("STATEGRAFT_ADOPTED_TAKERS has %q, which is not like medusa-3", word))
			continue
		}
		takers = append(takers, Taker{podUID, role, n})
	}
	return takers, err
}
