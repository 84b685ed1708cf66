package certs

import (
	"crypto"
	"crypto/x509"
	"sync"
	"time"
)

// Succession follows an authority that another keeps and replaces, as
// cert-manager does when its Secret is removed: the new one is trusted as soon as
// it is seen, and signs once it may be expected to be trusted everywhere. It is
// kept in memory only; whoever starts anew takes the present authority at once.
//
// An authority that is renewed with its key is the same one.
type Succession struct {
	mu   sync.Mutex
	line []successor // the oldest first, never empty after the first Observe
}

type successor struct {
	CA
	seen time.Time
}

// Observe takes the authority that is there now and answers who signs and who is
// trusted.
func (s *Succession) Observe(ca CA, now time.Time, p Policy) Authority {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.line) - 1
	if last >= 0 && samePublicKey(s.line[last].Certificate, ca.Certificate) {
		s.line[last].CA = ca
	} else {
		s.line = append(s.line, successor{ca, now})
	}
	var until time.Time
	signer := 0
	for i, one := range s.line {
		if i == 0 || validAt(s.line[signer].Certificate, now) != nil {
			signer = i
			continue
		}
		if ripe := one.seen.Add(p.margin()); ripe.After(now) {
			until = ripe
			break
		}
		signer = i
	}
	// Those before the signer go once nobody can meet their signatures.
	forget := 0
	for forget < signer && (now.After(s.line[forget].Certificate.NotAfter) || s.line[forget+1].seen.Add(p.margin()+p.keep()).Before(now)) {
		forget++
	}
	s.line = s.line[forget:]
	authority := Authority{Signer: s.line[signer-forget].CA, Until: until}
	for i := len(s.line) - 1; i >= 0; i-- {
		if c := s.line[i].Certificate; !contains(authority.Trusted, c) {
			authority.Trusted = append(authority.Trusted, c)
		}
	}
	return authority
}

func samePublicKey(a, b *x509.Certificate) bool {
	key, ok := a.PublicKey.(interface{ Equal(x crypto.PublicKey) bool })
	return ok && key.Equal(b.PublicKey)
}
