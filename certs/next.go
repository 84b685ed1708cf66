package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Change is something that a step changed, for the log and the metrics.
type Change struct {
	Certificate string // CertificateCA or CertificateWebhook
	What        string
	Why         string
	Rotation    bool // a new certificate is in use from now on
}

// The values of Change.Certificate.
const (
	CertificateCA      = "ca"
	CertificateWebhook = "webhook"
)

// Observed is what the cluster shows.
type Observed struct {
	// Bundles are the caBundles of the webhook configuration's entries that call
	// us. None: nobody calls.
	Bundles [][]byte
}

// checkInterval is the longest time without a look at the clock, which may be
// set while we wait.
const checkInterval = time.Hour

// Next is the step from a state to the one that has to be at the time now: the
// state, what changed, and when to come back. It is to be called again after what
// it answered was written and whenever something changed. An error means that no
// key could be made.
func Next(s State, now time.Time, p Policy, o Observed) (State, []Change, time.Time, error) {
	step := &step{State: s, now: now, policy: p}
	step.Former = slices.Clone(s.Former)
	step.look(o)
	step.forget()
	if err := errors.Join(step.succeed(), step.serve()); err != nil {
		return s, nil, time.Time{}, err
	}
	return step.State, step.changes, step.comeBack(), nil
}

type step struct {
	State
	now     time.Time
	policy  Policy
	changes []Change
}

func (s *step) changed(certificate string, rotation bool, why, what string, args ...any) {
	s.changes = append(s.changes, Change{Certificate: certificate, What: fmt.Sprintf(what, args...), Why: why, Rotation: rotation})
}

// newest is the authority that was made last.
func (s *step) newest() CA {
	if s.Next.None() {
		return s.Current
	}
	return s.Next
}

// pending tells whether the newest authority does not sign the serving pair yet.
func (s *step) pending() bool {
	return !s.Next.None() || !s.Current.None() && !s.Serving.None() && !s.Serving.SignedBy(s.Current.Certificate)
}

// look notes what the cluster shows: which authorities it trusts, and that the
// pair which is served is signed by the present one.
func (s *step) look(o Observed) {
	// Nothing is noted for a time to come. The clock was set back.
	s.Published, s.Switched, s.Lost = earliest(s.Published, s.now), earliest(s.Switched, s.now), earliest(s.Lost, s.now)

	s.find(o)
	carried := true
	for _, text := range o.Bundles {
		// Another's bundle may hold anything. We only look for what we know.
		bundle, _ := parseBundle(text)
		s.adopt(bundle)
		carried = carried && !s.Current.None() && contains(bundle, s.newest().Certificate)
	}
	switch {
	case carried && s.Published.IsZero() && !s.Current.None():
		s.Published = s.now
	case !carried && s.pending():
		s.Published = time.Time{} // somebody took it out again: begin anew
	}
	if len(s.Former) == 0 {
		s.Switched = time.Time{}
	} else if s.Switched.IsZero() && !s.Current.None() && s.Serving.SignedBy(s.Current.Certificate) {
		s.Switched = s.now
	}
}

// find notes that all was lost but what the webhook configuration trusts. The
// replicas go on serving a pair that one of those may have signed, until they are
// brought another.
func (s *step) find(o Observed) {
	var found []*x509.Certificate
	for _, text := range o.Bundles {
		bundle, _ := parseBundle(text)
		for _, c := range bundle {
			if maySign(c) == nil && !s.now.After(c.NotAfter) && !contains(s.Trusted(), c) && !contains(found, c) {
				found = append(found, c)
			}
		}
	}
	if s.Current.None() && s.Serving.None() && len(found) > 0 && s.Lost.IsZero() {
		s.Lost = s.now
	}
	if s.Found = nil; !s.Lost.IsZero() && s.now.Before(s.Lost.Add(s.policy.keep())) {
		s.Found = found
	} else {
		s.Lost = time.Time{}
	}
}

// published tells whether everybody trusts the newest authority by now.
func (s *step) published() bool {
	return !s.Published.IsZero() && !s.now.Before(s.Published.Add(s.policy.margin()))
}

// forget drops the former authorities that are of no use any more. One that has
// expired is kept as long as any other: that it has may be our clock's fault, which
// is ahead, and not known to those who call.
func (s *step) forget() {
	if s.Switched.IsZero() || s.now.Before(s.Switched.Add(s.policy.keep())) {
		return
	}
	for _, c := range s.Former {
		s.changed(CertificateCA, false, "every replica serves a certificate of the present one", "former authority %X dropped", c.SerialNumber.Bytes())
	}
	s.Former, s.Switched = nil, time.Time{}
}

// succeed makes an authority where one is needed, and lets it sign where it may.
func (s *step) succeed() error {
	t := s.policy.serving()
	if !s.Next.None() && s.Next.Works(t, s.now) != nil {
		s.Next, s.Published = CA{}, time.Time{}
	}
	unusable := s.Current.Works(t, s.now)
	if s.Next.None() && (unusable != nil || !s.now.Before(DueAt(s.Current.Certificate))) {
		next, err := NewCA(s.policy.CAValidity, s.now)
		if err != nil {
			return err
		}
		s.Next, s.Published = next, time.Time{}
		why := "two thirds of the present one's life are over"
		if unusable != nil {
			why = unusable.Error()
		}
		s.changed(CertificateCA, true, why, "authority %X made", next.Certificate.SerialNumber.Bytes())
	}
	if s.Next.None() || unusable == nil && !s.published() {
		return nil
	}
	former := s.Current.Certificate
	s.Current, s.Next, s.Switched = s.Next, CA{}, time.Time{}
	if former != nil {
		s.Former = append([]*x509.Certificate{former}, s.Former...)
	}
	why := "everybody trusts it"
	if unusable != nil {
		why = "the former one cannot: " + unusable.Error()
	}
	s.changed(CertificateCA, false, why, "authority %X signs from now on", s.Current.Certificate.SerialNumber.Bytes())
	return nil
}

// serve signs the serving pair anew where that is due.
func (s *step) serve() error {
	t := s.policy.serving()
	why := s.Serving.Serves(t, s.Trusted(), s.now)
	if why == nil {
		due, lasts := s.Serving.Renewable(t, s.Current, s.now)
		switch {
		case !s.Serving.SignedBy(s.Current.Certificate):
			// Whoever calls us trusts the authority that signed it. That they trust
			// the present one as well is known only later.
			if s.published() {
				why = errors.New("a former authority signed it")
			}
		case lasts && !s.now.Before(due):
			why = errors.New("two thirds of its life are over")
		}
	}
	if why == nil {
		return nil
	}
	issued, err := Issue(s.Current, t, s.now)
	if err != nil {
		return err
	}
	s.Serving = issued
	s.changed(CertificateWebhook, true, why.Error(), "certificate %X made", issued.Certificate.SerialNumber.Bytes())
	return nil
}

// comeBack is when the time alone changes something next.
func (s *step) comeBack() time.Time {
	at := s.now.Add(checkInterval)
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	sooner(s.Current.Certificate.NotAfter)
	sooner(s.Serving.Certificate.NotAfter)
	if s.Next.None() {
		sooner(DueAt(s.Current.Certificate))
	}
	if due, lasts := s.Serving.Renewable(s.policy.serving(), s.Current, s.now); lasts && s.Serving.SignedBy(s.Current.Certificate) {
		sooner(due)
	}
	if s.pending() && !s.Published.IsZero() {
		sooner(s.Published.Add(s.policy.margin()))
	}
	if !s.Lost.IsZero() {
		sooner(s.Lost.Add(s.policy.keep()))
	}
	if len(s.Former) > 0 && !s.Switched.IsZero() {
		sooner(s.Switched.Add(s.policy.keep()))
	}
	// Times in certificates are whole seconds.
	return latest(at, s.now.Add(time.Second))
}
