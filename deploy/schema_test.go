package deploy_test

import (
	"strings"
	"testing"
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
		{`controller.drainSeconds=3`, []string{"/controller", "drainSeconds"}},
		{`image.tag=1.0`, []string{"/image/tag", "string"}},
		{`image.digest="sha256:abc"`, []string{"/image/digest", "sha256:abc"}},
		{`image.pullPolicy="always"`, []string{"/image/pullPolicy", "Always"}},
		{`imagePullSecrets=["registry"]`, []string{"/imagePullSecrets/0", "object"}},
		{`certificates.mode="selfsigned"`, []string{"/certificates/mode", "self-signed"}},
		{`certificates.caValidity="5y"`, []string{"/certificates/caValidity", "5y"}},
		{`certificates.validity=2160`, []string{"/certificates/validity", "string"}},
		{`verbose="yes"`, []string{"/verbose", "boolean"}},
		{`config.annotations={"restore":"monday"}`, []string{"/config/annotations", "restore"}},
		{`config.annotations={"host-network":true}`, []string{"/config/annotations/host-network", "string"}},
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
