package webhook

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// annotationCases are values of every annotation. remedy is a part of what the
// user is told to write instead; empty for a good value.
var annotationCases = []struct{ key, value, remedy string }{
	{api.AnnotationRestore, "nightly-20261130", ""},
	{api.AnnotationRestore, "2026-11-30T02:00", ""},
	{api.AnnotationRestore, "latest-1", ""},
	{api.AnnotationRestore, "2026-11-30T02:00:00+01:00", "annotate the running pod"},
	{api.AnnotationRestore, "2026-11-30T02:00:00Z", "make a Restore"},
	{api.AnnotationRestore, "latest", "a template cannot ask for the newest backup"},
	{api.AnnotationRestore, strings.Repeat("b", 253), ""},
	{api.AnnotationRestore, "", "name a backup, or take the annotation off"},
	{api.AnnotationRestore, " ", "the name of a backup"},
	{api.AnnotationRestore, "a/b", "no slash"},
	{api.AnnotationRestore, "a..b", "the name of a backup"},
	{api.AnnotationRestore, "-rf", "the name of a backup"},
	{api.AnnotationRestore, "b\n", "the name of a backup"},
	{api.AnnotationRestore, strings.Repeat("b", 254), "at most 253"},
	{api.AnnotationRestoreSource, "cassandra-0.cassandra.db.svc", ""},
	{api.AnnotationRestoreSource, "10.0.0.1", ""},
	{api.AnnotationRestoreSource, "fd00::1", ""},
	{api.AnnotationRestoreSource, "", "the name of a node"},
	{api.AnnotationRestoreSource, "a b", "the name of a node"},
	{api.AnnotationRestoreSource, "a,,b", "the name of a node"},
	{api.AnnotationMedusaConfig, "medusa.team-a", ""},
	{api.AnnotationMedusaConfig, "", "the name of an object"},
	{api.AnnotationMedusaConfig, "Medusa", "lower case"},
	{api.AnnotationStorageSecret, "s3", ""},
	{api.AnnotationStorageSecret, "none", ""},
	{api.AnnotationStorageSecret, "", "or none for workload identity"},
	{api.AnnotationStorageSecret, "a_b", "or none for workload identity"},
	{api.AnnotationCQLSecret, "superuser", ""},
	{api.AnnotationCQLSecret, "../x", "the name of an object"},
	{api.AnnotationJMXSecret, "jmx", ""},
	{api.AnnotationJMXSecret, "-", "the name of an object"},
	{api.AnnotationConfigMap, "anna-config", ""},
	{api.AnnotationConfigMap, "A", "the name of an object"},
	{api.AnnotationDataVolume, "data", ""},
	{api.AnnotationDataVolume, "other", "no writable volume"},
	{api.AnnotationDataVolume, "a.b", "a container or volume of the pod"},
	{api.AnnotationContainer, "cassandra", ""},
	{api.AnnotationContainer, "other", "no container of the pod"},
	{api.AnnotationContainer, "", "a container or volume of the pod"},
	{api.AnnotationHostNetwork, "true", ""},
	{api.AnnotationHostNetwork, "false", ""},
	{api.AnnotationHostNetwork, "True", `"true" or "false"`},
	{api.AnnotationHostNetwork, "", `"true" or "false"`},
	{api.AnnotationSpread, "host", ""},
	{api.AnnotationSpread, "zone, host", ""},
	{api.AnnotationSpread, "", "host, zone or host,zone"},
	{api.AnnotationSpread, "host,", "host, zone or host,zone"},
	{api.AnnotationSpread, "rack", "host, zone or host,zone"},
	{api.AnnotationColocateWith, "role=memory", ""},
	{api.AnnotationColocateWith, "app in (a,b),!legacy", ""},
	{api.AnnotationColocateWith, "", "a label selector"},
	{api.AnnotationColocateWith, "a in", "a label selector"},
	{api.AnnotationExpose, "LoadBalancer", ""},
	{api.AnnotationExpose, "NodePort", "LoadBalancer"},
	{api.AnnotationOnConfigChange, "restart", ""},
	{api.AnnotationOnConfigChange, "reload", "it takes restart"},
	{api.AnnotationDecryptionSecret, "age-identity", ""},
	{api.AnnotationDecryptionSecret, "Age", "the name of an object"},
	{api.AnnotationMedusaImage, "registry:5000/a/b:c@sha256:" + strings.Repeat("0", 64), ""},
	{api.AnnotationMedusaImage, "", "the name of an image"},
	{api.AnnotationMedusaImage, "A B", "the name of an image"},
	{api.AnnotationAgentImage, "agent", ""},
	{api.AnnotationAgentImage, strings.Repeat("a", 2000), "the name of an image"},
	{api.AnnotationSidecarResources, `{"limits":{"memory":"1Gi"}}`, ""},
	{api.AnnotationSidecarResources, "requests: {cpu: 100m}", ""},
	{api.AnnotationSidecarResources, "", "requests"},
	{api.AnnotationSidecarResources, "{}", "requests and limits"},
	{api.AnnotationSidecarResources, `{"limit":{"memory":"1Gi"}}`, "such as"},
	{api.AnnotationSidecarResources, `{"limits":{"memory":"lots"}}`, "such as"},
	{api.AnnotationSidecarResources, `{"limits":{"nvidia.com/gpu":"1"}}`, "it takes cpu, memory"},
	{api.AnnotationSidecarResources, `{"limits":{"cpu":"-1"}}`, "above zero"},
	{api.AnnotationSidecarResources, `{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}`, "above its limit"},
	{api.AnnotationSidecarResources, strings.Repeat(" ", 5000), "such as"},
	{api.AnnotationGRPCPort, "50055", ""},
	{api.AnnotationGRPCPort, "80", "1024 to 65535"},
	{api.AnnotationGRPCPort, "65536", "1024 to 65535"},
	{api.AnnotationGRPCPort, "", "1024 to 65535"},
	{api.AnnotationGRPCPort, "5e4", "1024 to 65535"},
	{api.AnnotationGRPCTLS, "on", ""},
	{api.AnnotationGRPCTLS, "off", ""},
	{api.AnnotationGRPCTLS, "", `"on" or "off"`},
	{api.AnnotationGRPCTLS, "Off", `"on" or "off"`},
	{api.AnnotationGRPCTLS, "false", `"on" or "off"`},
	{api.AnnotationBackupSchedule, "0 3 * * *", ""},
	{api.AnnotationBackupSchedule, "@daily", ""},
	{api.AnnotationBackupSchedule, "*/5 0-6 * * MON-FRI", ""},
	{api.AnnotationBackupSchedule, "", "such as 0 3 * * *"},
	{api.AnnotationBackupSchedule, "0 3 * *", "needs 5"},
	{api.AnnotationBackupSchedule, "0 25 * * *", "it takes a cron expression in UTC"},
	{api.AnnotationBackupSchedule, "0 0 31 2 *", "never comes"},
	{api.AnnotationBackupSchedule, "CRON_TZ=Europe/Berlin 0 3 * * *", "in UTC"},
	{api.AnnotationBackupSchedule, strings.Repeat("1,", 200) + "1 * * * *", "longer than"},
	{api.AnnotationRetain, "7", ""},
	{api.AnnotationRetain, "0", "how many complete backups"},
	{api.AnnotationRetain, "7d", "how many complete backups"},
	{api.AnnotationRPO, "36h", ""},
	{api.AnnotationRPO, "2d", ""},
	{api.AnnotationRPO, "90m", ""},
	{api.AnnotationRPO, "", "such as 36h or 2d"},
	{api.AnnotationRPO, "30s", "at least 1m"},
	{api.AnnotationHeldBack, "ignore", ""},
	{api.AnnotationHeldBack, "true", "it takes ignore"},
	{api.AnnotationAdopt, "running", ""},
	{api.AnnotationAdopt, "never", ""},
	{api.AnnotationAdopt, "true", "it takes running or never"},
	{api.AnnotationAdopt, "", "it takes running or never"},
	{api.AnnotationAdopt, "Running", "it takes running or never"},
	{api.AnnotationAdoptRenew, "2026-11-30T02:00:00Z", ""},
	{api.AnnotationAdoptRenew, " ", ""},
	{api.AnnotationAdoptRenew, strings.Repeat("r", 128), ""},
	{api.AnnotationAdoptRenew, strings.Repeat("r", 129), "up to 128 bytes"},
	{api.AnnotationAdoptRenew, "", "such as the time"},
}

// cassandraPod is a pod that is injected as it is.
var cassandraPod = []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"db-0","labels":{"app":"db"}},"spec":{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"c"}}],
 "containers":[{"name":"cassandra","image":"cassandra:4.1","ports":[{"containerPort":9042},{"containerPort":7000}],"volumeMounts":[{"name":"data","mountPath":"/var/lib/cassandra"}]}]}}`)

func TestAnnotationValues(t *testing.T) {
	seen := map[string][2]int{}
	for _, c := range annotationCases {
		for where, in := range map[string]Input{
			"the pod":       {Pod: annotated(t, cassandraPod, map[string]string{c.key: c.value}), Namespace: labelled()},
			"the namespace": {Pod: cassandraPod, Namespace: withAnnotation(labelled(), c.key, c.value)},
		} {
			in.Config = DefaultConfig()
			out := Decide(in)
			count := seen[c.key]
			if c.remedy == "" {
				count[0]++
				if out.Verdict != workload.Inject {
					t.Errorf("%s %q of %s: %s (%s) %s", c.key, c.value, where, out.Verdict, out.Reason, out.Message)
				}
			} else {
				count[1]++
				if followedLater(c.key) {
					injectedAllTheSame(t, out, c.key, c.remedy, where)
					seen[c.key] = count
					continue
				}
				want := workload.Skip
				if c.key == api.AnnotationRestore {
					want = workload.Refuse
				}
				if out.Verdict != want || out.Reason != workload.ReasonBadAnnotation {
					t.Errorf("%s %q of %s: %s (%s), want %s (bad-annotation)", c.key, c.value, where, out.Verdict, out.Reason, want)
				}
				if !strings.Contains(out.Message, c.key) || !strings.Contains(out.Message, c.remedy) {
					t.Errorf("%s %q: message %q says no %q", c.key, c.value, out.Message, c.remedy)
				}
				// Those that only the pod can show to be wrong do not say where they stand.
				if !strings.Contains(out.Message, " names ") && !strings.Contains(out.Message, "of "+where+" is ") {
					t.Errorf("%s %q: message %q does not say that it stands on %s", c.key, c.value, out.Message, where)
				}
				checkWarnings(t, answer(out).Warnings)
				if want == workload.Skip && len(answer(out).Warnings) == 0 {
					t.Errorf("%s %q: no warning", c.key, c.value)
				}
			}
			seen[c.key] = count
		}
	}
	for _, key := range api.Annotations {
		if seen[key][0] == 0 || seen[key][1] == 0 {
			t.Errorf("%s has %d good and %d bad values in this test", key, seen[key][0], seen[key][1])
		}
	}
}

// followedLater tells whether it is the controller that follows an annotation.
func followedLater(key string) bool {
	return key == api.AnnotationBackupSchedule || key == api.AnnotationRetain || key == api.AnnotationRPO || key == api.AnnotationOnConfigChange ||
		key == api.AnnotationAdopt || key == api.AnnotationAdoptRenew
}

// injectedAllTheSame expects that a bad value of such an annotation takes nothing from the
// pod, and is told as the API server tells it.
func injectedAllTheSame(t *testing.T, out Outcome, key, remedy, where string) {
	t.Helper()
	if out.Verdict != workload.Inject || out.Patch == nil {
		t.Errorf("%s: %s (%s), want it injected: %s", key, out.Verdict, out.Reason, out.Message)
	}
	told := answer(out).Warnings
	checkWarnings(t, told)
	for _, part := range []string{key + " of " + where + " is ", remedy} {
		if !slices.ContainsFunc(told, func(text string) bool { return strings.Contains(text, key) && strings.Contains(text, part) }) {
			t.Errorf("%s: warnings %q say no %q", key, told, part)
		}
	}
}

// Neither a patch nor a restore depends on what the controller is to follow; another bad
// value keeps the pod from being injected as ever, and both are told.
func TestUnfollowed(t *testing.T) {
	bad := map[string]string{api.AnnotationBackupSchedule: "0 25 * * *", api.AnnotationRetain: "7d", api.AnnotationRPO: "soon"}
	good, out := decideOn(cassandraPod), Decide(Input{Pod: cassandraPod, Namespace: Namespace{Name: "db", Labels: labelled().Labels, Annotations: bad}, Config: DefaultConfig()})
	if out.Patch == nil || !reflect.DeepEqual(out.Patch.Operations, good.Patch.Operations) {
		t.Errorf("%s (%s): the patch differs", out.Verdict, out.Reason)
	}
	if text := strings.Join(answer(out).Warnings, "\n"); strings.Count(text, "not followed until corrected") != 3 {
		t.Errorf("warnings %q", text)
	}
	bad[api.AnnotationRestore] = "b1"
	if out := decideOn(annotated(t, cassandraPod, bad)); out.Verdict != workload.Inject {
		t.Errorf("with a restore: %s (%s) %s", out.Verdict, out.Reason, out.Message)
	}
	bad[api.AnnotationSpread] = "x"
	delete(bad, api.AnnotationRestore)
	out = decideOn(annotated(t, cassandraPod, bad))
	if text := strings.Join(answer(out).Warnings, "\n"); out.Reason != workload.ReasonBadAnnotation || !strings.Contains(out.Message, api.AnnotationSpread) || strings.Contains(out.Message, "more") || !strings.Contains(text, api.AnnotationRPO) {
		t.Errorf("beside another: %s (%s) %s, %q", out.Verdict, out.Reason, out.Message, text)
	}
	if got := Unfollowed("the pod", bad); len(got) != 3 || !strings.Contains(got[0], api.AnnotationBackupSchedule) {
		t.Errorf("unfollowed %q", got)
	}
}

func withAnnotation(ns Namespace, key, value string) Namespace {
	ns.Annotations = map[string]string{key: value}
	return ns
}

// Every problem is told, the first in the message and all in its count.
func TestSeveralBadAnnotations(t *testing.T) {
	out := decideOn(annotated(t, cassandraPod, map[string]string{"stategraft.io/spread": "x", "stategraft.io/grpc-port": "x", "stategraft.io/cql-secret": "X"}))
	if out.Reason != workload.ReasonBadAnnotation || !strings.Contains(out.Message, "(and 2 more)") {
		t.Errorf("%s: %s", out.Reason, out.Message)
	}
}

// The pod's annotation wins over the namespace's, which wins over the
// configuration's. A good value does not hide behind a bad one that it beats.
func TestPrecedence(t *testing.T) {
	config, err := ParseConfig([]byte(configHead + "annotations: {medusa-config: from-config}\n"))
	if err != nil {
		t.Fatal(err)
	}
	const key = api.AnnotationMedusaConfig
	for _, c := range []struct{ pod, namespace, want string }{
		{"", "", "from-config"}, {"", "from-ns", "from-ns"}, {"from-pod", "from-ns", "from-pod"}, {"from-pod", "", "from-pod"},
		{"from-pod", "BAD!", "from-pod"}, {"BAD!", "from-ns", ""}, {"", "BAD!", ""},
	} {
		in := Input{Pod: cassandraPod, Namespace: labelled(), Config: config}
		if c.pod != "" {
			in.Pod = annotated(t, cassandraPod, map[string]string{key: c.pod})
		}
		if c.namespace != "" {
			in.Namespace = withAnnotation(in.Namespace, key, c.namespace)
		}
		out, got := Decide(in), ""
		if out.Patch != nil {
			for _, v := range out.Patch.Volumes {
				if v.Name == patches.VolumeMedusaConfig {
					got = v.ConfigMap.Name
				}
			}
		}
		if got != c.want {
			t.Errorf("pod %q, namespace %q: ConfigMap %q, want %q (%s)", c.pod, c.namespace, got, c.want, out.Message)
		}
	}
}

const configHead = "apiVersion: " + ConfigVersion + "\nkind: " + ConfigKind + "\n"

// An image that the pod names wins over the configuration's, whoever the
// database runs as.
func TestMedusaImagePrecedence(t *testing.T) {
	config, err := ParseConfig([]byte(configHead + "medusa: {anyUIDImage: any/medusa}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		user        int
		image, want string
	}{{999, "", patches.DefaultMedusaImage}, {999, "mine/medusa", "mine/medusa"}, {1001, "", "any/medusa"}, {1001, "mine/medusa", "mine/medusa"}} {
		raw := withSpec(t, cassandraPod, func(spec map[string]any) { spec["securityContext"] = map[string]any{"runAsUser": c.user} })
		if c.image != "" {
			raw = annotated(t, raw, map[string]string{api.AnnotationMedusaImage: c.image})
		}
		out := Decide(Input{Pod: raw, Namespace: labelled(), Config: config})
		if out.Patch == nil {
			t.Fatalf("%+v: %s", c, out.Message)
		}
		for _, container := range out.Patch.Containers {
			if container.Name == patches.ContainerMedusa && container.Image != c.want {
				t.Errorf("user %d, annotation %q: image %s, want %s", c.user, c.image, container.Image, c.want)
			}
		}
	}
}
