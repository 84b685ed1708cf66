package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Policy says how long things last, and whom the serving pair is for.
type Policy struct {
	// CAValidity and Validity are the lives of an authority and of a pair. Both
	// are renewed when two thirds are over.
	CAValidity, Validity time.Duration
	// Margin is how long a new authority is published before it signs, and Keep
	// how long a former one stays trusted. Zero stands for their defaults.
	Margin, Keep time.Duration
	// Service and Namespace name the webhook's Service.
	Service, Namespace string
}

// defaultMargin is five times what the kubelet needs to bring a changed Secret
// into a volume: its sync period and the age of its cache, a minute each at most
// (kubernetes.io/docs/concepts/configuration/secret).
const defaultMargin = 10 * time.Minute

// defaultKeep is longer than a sidecar may put off taking its new pair, as while
// a backup runs. A former authority that is trusted for longer than needed costs
// nothing: its key is gone.
const defaultKeep = 24 * time.Hour

// margin and keep together fit in the third of an authority's life that is left
// when it is renewed.
func (p Policy) margin() time.Duration {
	if p.Margin > 0 {
		return p.Margin
	}
	return min(defaultMargin, p.CAValidity/10)
}

func (p Policy) keep() time.Duration {
	if p.Keep > 0 {
		return p.Keep
	}
	return min(defaultKeep, p.CAValidity/5)
}

// Check tells what is wrong with a policy; nil where it can be followed.
func (p Policy) Check() error {
	switch {
	case p.Validity <= 0 || p.CAValidity <= 0:
		return errors.New("the validities of authority and certificates have to be longer than zero")
	case p.Validity > p.CAValidity:
		return fmt.Errorf("certificates (%s) cannot be valid for longer than the authority that signs them (%s)", p.Validity, p.CAValidity)
	case p.margin()+p.keep() > p.CAValidity/3:
		return fmt.Errorf("a margin of %s and keeping a former authority for %s do not fit in a third of the authority's life of %s", p.margin(), p.keep(), p.CAValidity)
	}
	return nil
}

// servingName is the common name of the serving pair.
const servingName = "stategraft-webhook"

// serving is the template of the serving pair: the name by which the API server
// calls, and the one for people with curl.
func (p Policy) serving() Template {
	host := p.Service + "." + p.Namespace + ".svc"
	return Template{CommonName: servingName, Names: []string{host, host + ".cluster.local"}, Usage: x509.ExtKeyUsageServerAuth, Validity: p.Validity}
}
