package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/webhook"
)

// A value that is wrong is refused, with its name.
func TestSchemaNamesTheValue(t *testing.T) {
	h := helm(t)
	for _, c := range []struct {
		value string // for --set-json
		want  []string
	}{
		{`replicas=3`, []string{"replicas"}},
		{`webhook.replica=3`, []string{"/webhook", "replica"}},
		{`webhook.replicas="two"`, []string{"/webhook/replicas", "integer"}},
		{`webhook.replicas=0`, []string{"/webhook/replicas", "1"}},
		{`webhook.failurePolicy="Fail"`, []string{"/webhook/failurePolicy", "Ignore"}},
		{`webhook.timeoutSeconds=30`, []string{"/webhook/timeoutSeconds", "10"}},
		{`webhook.drainSeconds="10s"`, []string{"/webhook/drainSeconds", "integer"}},
		{`webhook.resources={"limit":{"memory":"1Gi"}}`, []string{"/webhook/resources", "limit"}},
		{`webhook.resources={"limits":{"memory":"1GB"}}`, []string{"/webhook/resources/limits/memory", "1GB"}},
		{`webhook.nodeSelector={"gpu":true}`, []string{"/webhook/nodeSelector/gpu", "string"}},
		{`webhook.tolerations=[{"key":"a","operator":"Exist"}]`, []string{"/webhook/tolerations/0/operator", "Exists"}},
		{`webhook.affinity={"nodeAfinity":{}}`, []string{"/webhook/affinity", "nodeAfinity"}},
		{`webhook.podLabels={"app.kubernetes.io/component":"x"}`, []string{"/webhook/podLabels/app.kubernetes.io~1component"}},
		{`controller.healAfter="soon"`, []string{"/controller/healAfter", "soon"}},
		{`controller.healAfter="0s"`, []string{"/controller/healAfter", "0s"}},
		{`controller.healAfter="0h00m"`, []string{"/controller/healAfter", "0h00m"}},
		{`controller.drainSeconds=3`, []string{"/controller", "drainSeconds"}},
		{`adopt.perNode=0`, []string{"/adopt/perNode", "1"}},
		{`adopt.perDay=21`, []string{"/adopt/perDay", "20"}},
		{`adopt.inAll="all"`, []string{"/adopt/inAll", "integer"}},
		{`adopt.enable=true`, []string{"/adopt", "enable"}},
		{`image.tag=1.0`, []string{"/image/tag", "string"}},
		{`image.digest="sha256:abc"`, []string{"/image/digest", "sha256:abc"}},
		{`image.pullPolicy="always"`, []string{"/image/pullPolicy", "Always"}},
		{`imagePullSecrets=["registry"]`, []string{"/imagePullSecrets/0", "object"}},
		{`certificates.mode="selfsigned"`, []string{"/certificates/mode", "self-signed"}},
		{`certificates.caValidity="5y"`, []string{"/certificates/caValidity", "5y"}},
		{`certificates.caValidity="1h"`, []string{"certificates.caValidity (1h)", "certificates.validity (2160h)"}},
		{`certificates={"validity":"50000h","mode":"cert-manager"}`, []string{"certificates.caValidity (43800h)", "certificates.validity (50000h)"}},
		{`certificates.validity=2160`, []string{"/certificates/validity", "string"}},
		{`verbose="yes"`, []string{"/verbose", "boolean"}},
		{`config.annotations={"restore":"monday"}`, []string{"/config/annotations", "restore"}},
		{`config.annotations={"host-network":true}`, []string{"/config/annotations/host-network", "string"}},
		{`config.annotations={"agent-image":"a b"}`, []string{"/config/annotations/agent-image", "a b"}},
		{`config.annotations={"medusa-image":""}`, []string{"/config/annotations/medusa-image"}},
		{`config.medusa={"anyUIDImage":"a b"}`, []string{"/config/medusa/anyUIDImage", "a b"}},
		{`config.anyUIDImage="x"`, []string{"/config", "anyUIDImage"}},
		{`config.nativeSidecars=true`, []string{"/config/nativeSidecars", "auto"}},
		{`networkPolicy.metricsFrom=[{"namespaceSelectors":{}}]`, []string{"/networkPolicy/metricsFrom/0", "namespaceSelectors"}},
		{`networkPolicy.metricsFrom=[{}]`, []string{"/networkPolicy/metricsFrom/0"}},
		{`networkPolicy.egress.apiServerPorts=[]`, []string{"/networkPolicy/egress/apiServerPorts"}},
		{`monitoring.serviceMonitor.interval="30"`, []string{"/monitoring/serviceMonitor/interval"}},
		{`monitoring.serviceMonitors={"enabled":true}`, []string{"/monitoring", "serviceMonitors"}},
		{`monitoring.dashboard.enabled="true"`, []string{"/monitoring/dashboard/enabled", "boolean"}},
		{`commonLabels={"app.kubernetes.io/name":"x"}`, []string{"/commonLabels/app.kubernetes.io~1name"}},
		{`namespace.name="x"`, []string{"/namespace", "name"}},
		{`crds.install="yes"`, []string{"/crds/install", "boolean"}},
		{`crds.keep=false`, []string{"/crds", "keep"}},
	} {
		_, err := h.Template(t.Context(), "chart", "--set-json", c.value)
		if err == nil {
			t.Errorf("%s: accepted", c.value)
			continue
		}
		_, said, _ := strings.Cut(err.Error(), "exit status 1") // not what we wrote ourselves
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q is missing in: %s", c.value, want, said)
			}
		}
	}
}

// The schema takes the images that the webhook takes.
func TestSchemaOfImages(t *testing.T) {
	pattern := patternOf(t, "imageName")
	for _, image := range []string{
		"", "a", "a b", " a", "a ", "a\n", "A", "a:", "a:b c", "a:v1", "a:V1.2_3-x", "a:-1", "a/b", "a//b", "/a", "a/", "a/B", "a_b", "a__b", "a___b", "a--b", "a.b", "a..b", "-a",
		"docker.io/k8ssandra/medusa:0.30.0", "registry.example.com:5000/team/agent:v1", "REGISTRY/agent:v1", "Registry.example/agent", "localhost/agent", "localhost:5000/agent",
		"[2001:db8::1]:5000/agent:v1", "[2001:db8::1]/agent", "registry.example./agent", "-registry/agent", "registry:x/agent",
		"a@sha256:" + strings.Repeat("a", 64), "a:v1@sha256:" + strings.Repeat("0", 64), "a@sha256:" + strings.Repeat("a", 31), "a@sha256", "a@:" + strings.Repeat("a", 64),
		"https://registry.example/agent", "${IMAGE}", "a:" + strings.Repeat("t", 128), "a:" + strings.Repeat("t", 129),
	} {
		_, err := webhook.ParseConfig(fmt.Appendf(nil, "apiVersion: %s\nkind: %s\nannotations: {agent-image: %q}\n", webhook.ConfigVersion, webhook.ConfigKind, image))
		if got := pattern.MatchString(image); got != (err == nil) {
			t.Errorf("%q: the schema takes it: %v, the webhook: %v", image, got, err)
		}
	}
}

// The validities that the chart takes are those of the controller.
func TestValidities(t *testing.T) {
	h := helm(t)
	for _, c := range [][2]int{{1, 1}, {1, 2}, {2, 1}, {24, 24}, {25, 24}, {24, 2160}, {2160, 2160}, {43800, 2160}, {999999, 999999}} {
		policy := certs.Policy{CAValidity: time.Duration(c[0]) * time.Hour, Validity: time.Duration(c[1]) * time.Hour}
		for _, mode := range []string{certManager, selfSigned} {
			_, err := h.Template(t.Context(), "chart", "--set", fmt.Sprintf("certificates.mode=%s,certificates.caValidity=%dh,certificates.validity=%dh", mode, c[0], c[1]))
			if refused := policy.Check(); (err == nil) != (refused == nil) {
				t.Errorf("%s, CA %dh, certificates %dh: the chart says %v, the controller %v", mode, c[0], c[1], err, refused)
			}
		}
	}
}

// What a duration is to the schema is one to Go, and longer than nothing.
func TestSchemaOfHealAfter(t *testing.T) {
	var schema struct {
		Properties struct {
			Controller struct {
				Properties map[string]struct{ Pattern string }
			}
		}
	}
	readSchemaInto(t, &schema)
	pattern := regexp.MustCompile(schema.Properties.Controller.Properties["healAfter"].Pattern)
	for _, text := range []string{"", "0", "0s", "00s", "0h0m0s", "1s", "45s", "1m30s", "0h5m", "5m0s", "1h", "10", "-1s", "1d", "s", "999999h", "9999999999h", "100000s", "1m 2s"} {
		after, err := time.ParseDuration(text)
		if got, want := pattern.MatchString(text), err == nil && after > 0; got != want {
			t.Errorf("%q: the schema takes it: %v, it is %s, %v", text, got, after, err)
		}
	}
}

// patternOf is that of a definition of the schema.
func patternOf(t *testing.T, definition string) *regexp.Regexp {
	t.Helper()
	var schema struct {
		Definitions map[string]struct{ Pattern string }
	}
	readSchemaInto(t, &schema)
	pattern := schema.Definitions[definition].Pattern
	if pattern == "" {
		t.Fatalf("the schema has no pattern of %s", definition)
	}
	return regexp.MustCompile(pattern)
}

func readSchemaInto(t *testing.T, into any) {
	t.Helper()
	text, err := os.ReadFile("chart/values.schema.json")
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
