package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SectionOptions is the name of our section in anna-config.yml.
const SectionOptions = "stategraft"

// minDepart is the shortest wait, one that a pod which is only re-created gets through.
const minDepart = 10 * time.Second

func (c *Config) parseOptions() error {
	s, err := c.anna.section(SectionOptions)
	if err != nil {
		return err
	}
	if err := s.only("services", "domain", "depart-after", "safe-join", "response-port"); err != nil {
		return err
	}
	o := &c.Options
	if err := o.Services.parse(s); err != nil {
		return err
	}
	if domain, ok, err := s.word("domain"); err != nil {
		return err
	} else if ok {
		if o.Domain = strings.TrimSuffix(domain, "."); !isName(o.Domain) {
			return s.fail("domain", "is %q; write the cluster's domain, such as cluster.local, or leave it out", domain)
		}
	}
	if text, ok, err := s.word("depart-after"); err != nil {
		return err
	} else if ok {
		if o.DepartAfter, err = duration(text); err != nil || o.DepartAfter < minDepart {
			return s.fail("depart-after", "is %q; write a time of at least %s, such as 60s or 5m", text, minDepart)
		}
	}
	if o.SafeJoin, err = s.boolean("safe-join", true); err != nil {
		return err
	}
	if s.find("response-port") != nil {
		o.ResponsePort, err = s.number("response-port", 1024, 65534, "write a port from 1024 to 65534 that is free, and the next one too")
		if err != nil {
			return err
		}
		if o.ResponsePort >= 3000 && o.ResponsePort+1 < 6980 || o.ResponsePort >= 6999 && o.ResponsePort < 7400 {
			return s.fail("response-port", "is %d, among the ports of Anna and Cloudburst (3000 to 6979, 7000 to 7399); take another", o.ResponsePort)
		}
	}
	return nil
}

// fields are the Services by their keys.
func (v *Services) fields() map[string]*string {
	return map[string]*string{
		"memory": &v.Memory, "ebs": &v.Disk, "routing": &v.Routing, "monitoring": &v.Monitoring,
		"scheduler": &v.Scheduler, "executor": &v.Executor, "management": &v.Management,
	}
}

func (v *Services) parse(options *section) error {
	s, err := options.section("services")
	if err != nil {
		return err
	}
	fields := v.fields()
	if err := s.only("memory", "ebs", "routing", "monitoring", "scheduler", "executor", "management"); err != nil {
		return err
	}
	for _, p := range s.pairs {
		text, _, _, err := s.scalar(p.key)
		if err != nil {
			return err
		}
		if isNull(text) {
			text = "" // there is none
		}
		if text != "" && !isName(strings.TrimSuffix(text, ".")) {
			return s.fail(p.key, `is %q; write the name of a Service, or "" where there is none`, text)
		}
		*fields[p.key] = text
	}
	if v.Routing == "" {
		return s.fail("routing", "is empty; Anna cannot do without routing nodes: name their headless Service")
	}
	return nil
}

// only refuses keys that are not known: in our own section they are slips.
func (s *section) only(known ...string) error {
	for _, p := range s.pairs {
		if !slices.Contains(known, p.key) {
			return s.fail(p.key, "is not known here; the keys are %s", strings.Join(known, ", "))
		}
	}
	return nil
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// isName tells whether a text is a DNS name as Kubernetes gives them.
func isName(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if !label.MatchString(part) {
			return false
		}
	}
	return len(text) <= 253
}

// duration reads 90s, 5m, or seconds alone.
func duration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, nil
	}
	return time.ParseDuration(text)
}

// Host is the whole name of a Service, without a dot at its end: empty where there is
// none.
func (o Options) Host(service, namespace string) string {
	switch dots := strings.Count(service, "."); {
	case service == "":
		return ""
	case strings.HasSuffix(service, "."):
		return strings.TrimSuffix(service, ".")
	case dots == 0:
		return service + "." + namespace + ".svc." + o.domain()
	case dots == 1:
		return service + ".svc." + o.domain()
	case dots == 2 && strings.HasSuffix(service, ".svc"):
		return service + "." + o.domain()
	}
	return service
}

func (o Options) domain() string {
	if o.Domain == "" {
		return DefaultDomain
	}
	return o.Domain
}

// DefaultDomain is the domain of most clusters.
const DefaultDomain = "cluster.local"

// DomainOf is the cluster's domain as a pod's resolv.conf tells it (search NAMESPACE.svc.DOMAIN),
// or the usual one.
func DomainOf(resolv []byte) string {
	for line := range strings.Lines(string(resolv)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "search" {
			continue
		}
		for _, word := range words[1:] {
			if domain, ok := strings.CutPrefix(word, "svc."); ok && isName(strings.TrimSuffix(domain, ".")) {
				return strings.TrimSuffix(domain, ".")
			}
		}
	}
	return DefaultDomain
}
