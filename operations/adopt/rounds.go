package adopt

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
)

// Round is what was added to a pod at one time: an agent, which of Cassandra brings the
// binary, and who takes it from there.
type Round struct {
	First int       // number of the agent
	Added time.Time // zero where that cannot be read
	Roles []patches.Role
	Anew  bool // added for another pair or as it was asked for, not for what had become of the one before
}

// Rounds lists what was added, the oldest first.
func Rounds(parts []adopted.Part) (rounds []Round) {
	var before [2]string
	for i := range parts {
		p := &parts[i]
		if len(rounds) == 0 || p.Role == patches.RoleAgent {
			by := [2]string{p.Env(patches.EnvAdoptedPair), p.Env(patches.EnvAdoptedRenew)}
			rounds = append(rounds, Round{First: p.Number, Added: p.Added(), Anew: len(rounds) > 0 && by != before})
			before = by
		}
		last := &rounds[len(rounds)-1]
		last.Roles = append(last.Roles, p.Role)
	}
	return rounds
}

// at is when a round was added, by a clock that is not far ahead of ours; zero where that
// cannot be known. Nothing waits for a time that somebody else's clock has yet to come to.
func (r *Round) at(now time.Time) time.Time {
	if r.Added.After(now.Add(skew)) {
		return time.Time{}
	}
	return r.Added
}

// looked is what is seen of a pod's parts: of each role the newest.
type looked struct {
	rounds []Round
	newest map[patches.Role]*adopted.Part
	agent  bool // the agent is what serves, as of Anna
	parts  []adopted.Part
	now    time.Time
}

func look(p Pod) looked {
	l := looked{rounds: Rounds(p.Parts), newest: map[patches.Role]*adopted.Part{}, agent: true, parts: p.Parts, now: p.Now}
	for _, role := range patches.Roles {
		if part := adopted.Newest(p.Parts, role); part != nil {
			l.newest[role] = part
			l.agent = l.agent && role == patches.RoleAgent
		}
	}
	return l
}

func (l *looked) last() *Round { return &l.rounds[len(l.rounds)-1] }

// brings tells whether a part is an agent that brings the binary and ends.
func (l *looked) brings(part *adopted.Part) bool { return part.Role == patches.RoleAgent && !l.agent }

func (l *looked) up(part *adopted.Part) bool {
	if l.brings(part) {
		return part.Done()
	}
	return part.State() == adopted.Running
}

// ended tells whether a part does not do any more what it is there for.
func (l *looked) ended(part *adopted.Part) bool {
	return part.State() == adopted.Ended && !l.up(part)
}

// each are the newest parts in the order of the roles.
func (l *looked) each() (parts []*adopted.Part) {
	for _, role := range patches.Roles {
		if part := l.newest[role]; part != nil {
			parts = append(parts, part)
		}
	}
	return parts
}

// serves tells whether any part that the controllers ask runs, also one that is not the
// newest: it serves until a newer one takes over.
func (l *looked) serves() bool {
	role := patches.RoleMedusa
	if l.agent {
		role = patches.RoleAgent
	}
	return slices.ContainsFunc(l.parts, func(p adopted.Part) bool { return p.Role == role && p.State() == adopted.Running })
}

// wanted says which roles are to be added, as patches.Adoption has them: nil for all.
func (l *looked) wanted(p Pod) (roles []patches.Role, any bool) {
	if l.stale(p) {
		return nil, true
	}
	bad := map[patches.Role]bool{}
	for role, part := range l.newest {
		if l.ended(part) || l.outdated(p, part) {
			bad[role] = true
		}
	}
	if len(bad) == 0 {
		return nil, false
	}
	if agent := l.newest[patches.RoleAgent]; agent == nil || !agent.Done() {
		// Nobody knows who has taken what it brings, and its like goes to those of its own
		// round alone.
		for _, role := range l.last().Roles {
			bad[role] = true
		}
	}
	for _, role := range patches.Roles {
		if bad[role] && role != patches.RoleAgent {
			roles = append(roles, role)
		}
	}
	if len(roles) == len(l.newest)-1 {
		return nil, true
	}
	return roles, true
}

// stale tells whether what serves was made with another pair than there is now, or before it
// was asked for anew.
func (l *looked) stale(p Pod) bool {
	serving := l.newest[patches.RoleMedusa]
	if serving == nil {
		serving = l.newest[patches.RoleAgent]
	}
	if serving == nil {
		return false
	}
	renewed := p.Renew != "" && p.Renew != serving.Env(patches.EnvAdoptedRenew)
	return renewed || p.Pair != "" && mutual(serving) && p.Pair != serving.Env(patches.EnvAdoptedPair)
}

// mutual tells whether a part takes api.SecretGRPC.
func mutual(part *adopted.Part) bool { return takesPair(part.Container) }

// takesPair tells whether a container has a variable with the certificate of
// api.SecretGRPC.
func takesPair(c *corev1.EphemeralContainer) bool {
	return slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == envCertificate })
}

var envCertificate = func() string {
	for _, c := range patches.Contents {
		if c.Path == patches.DirGRPCTLS+"/"+certs.KeyCert {
			return c.Env
		}
	}
	panic("no variable has the certificate") // of a constant
}()

// outdated tells of a part that waits whether it would be added otherwise now.
func (l *looked) outdated(p Pod, part *adopted.Part) bool {
	digest, known := p.Digests[part.Role]
	return known && part.State() == adopted.Waiting && part.Number >= l.last().First && digest != part.Env(patches.EnvAdoptedDigest)
}

// size is how many containers the roles come to.
func (l *looked) size(roles []patches.Role) int {
	if roles == nil {
		return len(l.newest)
	}
	return 1 + len(roles)
}

// skew is how far another's clock is believed to be ahead.
const skew = 10 * time.Minute

// due says whether it is too early to add anything, and until when. All rounds of a day
// count towards what a day may have; for how long the next waits, those that were added for
// something that had failed.
func (l *looked) due(p Pod) (Reason, time.Time) {
	times, failed, from := 0, 0, time.Time{}
	for i := range l.rounds {
		at := l.rounds[i].at(p.Now)
		if from = later(from, at); at.After(p.Now.Add(-day)) {
			times++
			if !l.rounds[i].Anew {
				failed++
			}
		}
	}
	if times >= p.perDay() {
		return ReasonExhausted, l.dayOver(p, times)
	}
	if l.stale(p) { // somebody asks for it, who need not wait for what had failed before
		failed = min(failed, 1)
	}
	for _, part := range l.each() {
		if !l.ended(part) {
			continue
		}
		if finished := part.Status.State.Terminated.FinishedAt.Time; finished.Before(p.Now.Add(skew)) {
			from = later(from, finished)
		}
	}
	if at := from.Add(p.backoff(failed)); at.After(p.Now) {
		return ReasonBackingOff, at
	}
	return "", time.Time{}
}

// dayOver is when one fewer than the rounds of a day is left of them.
func (l *looked) dayOver(p Pod, times int) time.Time {
	for i := range l.rounds {
		if at := l.rounds[i].at(p.Now); at.After(p.Now.Add(-day)) {
			if times--; times < p.perDay() {
				return at.Add(day)
			}
		}
	}
	return p.Now.Add(day)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
