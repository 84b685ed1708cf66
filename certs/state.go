package certs

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The data keys of the Secrets. The first three are those of kubernetes.io/tls
// and of cert-manager.
const (
	KeyCert     = "tls.crt"
	KeyKey      = "tls.key"
	KeyCA       = "ca.crt"
	keyNextCert = "next.crt"
	keyNextKey  = "next.key"
	keyRotation = "rotation.json"
)

// State is our own authority and the webhook's serving pair. It is all in two
// Secrets, so that whoever takes over, after whatever crash, goes on from there.
//
// An authority is replaced in these steps, each of which is one write:
//
//  1. Next is made and goes into every bundle; Current signs as before.
//  2. Published notes when the webhook configuration was seen to carry it.
//  3. A margin later, Next becomes Current, the old one Former, and the serving
//     pair is signed anew.
//  4. Switched notes when that pair was seen in its Secret. Once it must have
//     reached every replica, the former authority is dropped.
type State struct {
	Current CA                  // signs
	Next    CA                  // will sign
	Former  []*x509.Certificate // trusted still; their keys are gone

	// Published is since when the webhook configuration carries the newest
	// authority; zero where that is not known.
	Published time.Time
	// Switched is since when the serving pair in the Secret is signed by Current;
	// kept only while there is a former authority.
	Switched time.Time

	// Lost is when neither an authority nor a serving pair was found, while the
	// webhook configuration trusted somebody; zero where that is long ago.
	Lost time.Time
	// Found are the authorities in the webhook configuration that are not ours: since
	// Lost, whoever signed what the replicas serve may be one of them. They are read
	// from there each time, and never trusted elsewhere.
	Found []*x509.Certificate

	Serving Issued
}

// rotation is the part of State that is no certificate, as JSON.
type rotation struct {
	Published time.Time `json:"published,omitzero"`
	Switched  time.Time `json:"switched,omitzero"`
	Lost      time.Time `json:"lost,omitzero"`
}

// Parse reads the data of the two Secrets; nil stands for one that is not there.
// It never fails: what is damaged is left out and named, and Next makes it anew.
func Parse(authority, serving map[string][]byte) (State, []error) {
	var s State
	var problems []error
	note := func(where string, err error) {
		if err != nil && !errors.Is(err, errMissing) {
			problems = append(problems, fmt.Errorf("%s: %w", where, err))
		}
	}
	var err error
	s.Current, err = ParseCA(authority[KeyCert], authority[KeyKey])
	note("the authority", err)
	s.Next, err = ParseCA(authority[keyNextCert], authority[keyNextKey])
	note("the next authority", err)
	if s.Current.None() || !s.Next.None() && s.Next.Certificate.Equal(s.Current.Certificate) {
		s.Current, s.Next = s.Next, CA{}
	}
	bundle, err := parseBundle(authority[KeyCA])
	note("the bundle of authorities", err)
	for _, c := range bundle {
		if err := maySign(c); err != nil {
			note("the bundle of authorities", err)
		} else {
			s.addFormer(c)
		}
	}
	if text := authority[keyRotation]; len(text) > 0 {
		var r rotation
		err := json.Unmarshal(text, &r)
		note("the state of the rotation", err)
		if err == nil {
			s.Published, s.Switched, s.Lost = r.Published, r.Switched, r.Lost
		}
	}
	s.Serving, err = ParseIssued(serving[KeyCert], serving[KeyKey])
	note("the serving pair", err)
	bundle, err = parseBundle(serving[KeyCA])
	note("the serving pair's bundle", err)
	s.adopt(bundle)
	return s, problems
}

// addFormer trusts a certificate, unless it is trusted already.
func (s *State) addFormer(c *x509.Certificate) {
	if !contains(s.Trusted(), c) {
		s.Former = append(s.Former, c)
	}
}

// adopt trusts those of the candidates that signed the serving pair which is
// there: where the authority's Secret was lost, the replicas still serve that
// pair. It trusts no other, as the candidates come from places that more people
// may write to.
func (s *State) adopt(candidates []*x509.Certificate) {
	for _, c := range candidates {
		if s.Serving.SignedBy(c) && maySign(c) == nil && !contains(s.Trusted(), c) {
			s.Former = append(s.Former, c)
			s.Switched = time.Time{}
		}
	}
}

// Trusted are the certificates of all authorities, the newest first.
func (s State) Trusted() []*x509.Certificate {
	var all []*x509.Certificate
	for _, ca := range []CA{s.Next, s.Current} {
		if !ca.None() {
			all = append(all, ca.Certificate)
		}
	}
	return append(all, s.Former...)
}

// Bundle is Trusted as PEM: ca.crt of every Secret.
func (s State) Bundle() []byte { return encodeBundle(s.Trusted()) }

// CABundle is what the webhook configuration is to trust: Bundle, and for a while
// those who were found there when everything else was lost.
func (s State) CABundle() []byte { return encodeBundle(append(s.Trusted(), s.Found...)) }

// Authority is what signs and what is to be trusted, for others than the webhook.
func (s State) Authority() (Authority, error) {
	if s.Current.None() {
		return Authority{}, ErrNoAuthority
	}
	return Authority{Signer: s.Current, Trusted: s.Trusted()}, nil
}

// AuthorityData is the content of the authority's Secret.
func (s State) AuthorityData() (map[string][]byte, error) {
	times, err := json.Marshal(rotation{s.Published.UTC(), s.Switched.UTC(), s.Lost.UTC()})
	if err != nil {
		return nil, fmt.Errorf("writing the state of the rotation: %w", err)
	}
	data := map[string][]byte{
		KeyCert: s.Current.certPEM, KeyKey: s.Current.keyPEM, KeyCA: s.Bundle(), keyRotation: times,
	}
	if !s.Next.None() {
		data[keyNextCert], data[keyNextKey] = s.Next.certPEM, s.Next.keyPEM
	}
	return data, nil
}

// ServingData is the content of the serving pair's Secret.
func (s State) ServingData() map[string][]byte {
	return map[string][]byte{KeyCert: s.Serving.CertPEM, KeyKey: s.Serving.KeyPEM, KeyCA: s.Bundle()}
}

// TrustedBy tells whether everybody who calls trusts the serving pair already.
func (s State) TrustedBy(o Observed) bool {
	for _, text := range o.Bundles {
		bundle, _ := parseBundle(text)
		trusted := false
		for _, c := range bundle {
			trusted = trusted || s.Serving.SignedBy(c)
		}
		if !trusted {
			return false
		}
	}
	return true
}
