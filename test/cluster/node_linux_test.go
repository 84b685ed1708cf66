package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// requireNode skips a test that starts a node unless it is asked for.
func requireNode(t *testing.T) {
	t.Helper()
	if os.Getenv(NodeEnv) != "1" {
		t.Skipf("starts a node: set %s=1 to run it, as root on Debian", NodeEnv)
	}
}

const nodeSet = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {clusterIP: None, selector: {app: web}, publishNotReadyAddresses: true, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: default}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: {fsGroup: 999}
      initContainers:
      - name: side
        image: IMAGE
        restartPolicy: Always
        command: [sh, -c, "echo started beside; exec sleep 100000"]
      containers:
      - name: main
        image: IMAGE
        imagePullPolicy: Never
        command: [sh, -c, "echo hello from $HOSTNAME; echo $HOSTNAME > /tmp/index.html; exec httpd -f -p 80 -h /tmp"]
        resources: {limits: {memory: 64Mi}}
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: standard, resources: {requests: {storage: 1Gi}}}
`

func TestNode(t *testing.T) {
	requireNode(t)
	cp := startForTest(t, Options{Node: true})
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := cp.Kubectl(ctx, nil, args...)
		if err != nil {
			events, _ := cp.Kubectl(ctx, nil, "get", "events,pods", "-A", "-o", "wide")
			t.Fatalf("%v\n%s\n%s", err, out, events)
		}
		return strings.TrimSpace(out)
	}
	if _, err := cp.Kubectl(ctx, strings.NewReader(strings.ReplaceAll(nodeSet, "IMAGE", BusyboxImage)), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	kubectl("rollout", "status", "statefulset/web", "--timeout=180s")
	if got := kubectl("logs", "web-0", "-c", "main"); got != "hello from web-0" {
		t.Errorf("logs: %q", got)
	}
	if got := kubectl("logs", "web-0", "-c", "side"); got != "started beside" {
		t.Errorf("logs of the native sidecar: %q", got)
	}
	kubectl("exec", "web-0", "-c", "main", "--", "sh", "-c", "echo kept > /data/file")

	t.Run("dns", func(t *testing.T) {
		ip := kubectl("get", "pod", "web-1", "-o", "jsonpath={.status.podIP}")
		awaitOutput(ctx, t, cp, "web-1.web.default.svc.cluster.local", "exec", "web-0", "-c", "main", "--", "nslookup", ip)
		awaitOutput(ctx, t, cp, ip, "exec", "web-0", "-c", "main", "--", "nslookup", "web-1.web.default.svc.cluster.local")
		awaitOutput(ctx, t, cp, "NXDOMAIN", "exec", "web-0", "-c", "main", "--", "sh", "-c", "nslookup example.invalid. || true")
	})
	t.Run("api server", func(t *testing.T) {
		// Only that it answers there, and TLS: the static wget speaks no TLS itself.
		awaitOutput(ctx, t, cp, "HTTP request to an HTTPS server", "exec", "web-0", "-c", "main", "--", "sh", "-c",
			"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT")
	})
	t.Run("service", func(t *testing.T) {
		// nc and an address: a static wget crashes when it resolves a name. Asked
		// often enough, both pods answer, the one that asks included.
		request := "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 " + kubectl("get", "service", "front", "-o", "jsonpath={.spec.clusterIP}") + " 80"
		for _, pod := range []string{"web-0", "web-1"} {
			awaitOutput(ctx, t, cp, "\n"+pod+"\n", "exec", "web-0", "-c", "main", "--", "sh", "-c", request)
		}
	})
	t.Run("volume", func(t *testing.T) {
		uid := kubectl("get", "pod", "web-0", "-o", "jsonpath={.metadata.uid}")
		kubectl("delete", "pod", "web-0", "--wait=false")
		kubectl("wait", "--for=delete", "pod/web-0", "--timeout=180s")
		kubectl("rollout", "status", "statefulset/web", "--timeout=180s")
		if again := kubectl("get", "pod", "web-0", "-o", "jsonpath={.metadata.uid}"); again == uid {
			t.Error("the pod was not made again")
		}
		if got := kubectl("exec", "web-0", "-c", "main", "--", "cat", "/data/file"); got != "kept" {
			t.Errorf("file on the volume: %q", got)
		}
		if got := kubectl("exec", "web-0", "-c", "main", "--", "stat", "-c", "%u:%g %a", "/data"); got != "0:999 2775" {
			t.Errorf("volume after fsGroup 999: %s", got)
		}
		kubectl("delete", "statefulset", "web")
		kubectl("delete", "pvc", "--all", "--timeout=180s")
		awaitOutput(ctx, t, cp, "No resources", "get", "pv", "--show-kind")
		if left, _ := filepath.Glob(filepath.Join(cp.VolumesDir(), "*")); len(left) > 0 {
			t.Errorf("folders of removed volumes: %v", left)
		}
	})
}

// awaitOutput runs kubectl until its output holds want.
func awaitOutput(ctx context.Context, t *testing.T, cp *ControlPlane, want string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		out, err := cp.Kubectl(ctx, nil, args...)
		if want == "No resources" && err == nil && out == "" || strings.Contains(out, want) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("kubectl %s: want %q in %q, %v", strings.Join(args, " "), want, out, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// traces are what a node with the state folder dir has on the machine.
func traces(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for _, file := range []string{"/sys/class/net/" + bridge} {
		if _, err := os.Stat(file); err == nil {
			found = append(found, file)
		}
	}
	found = append(found, cgroups()...)
	results, _ := filepath.Glob("/var/lib/cni/results/" + bridge + "-*")
	found = append(found, results...)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, " "+dir+"/") {
			found = append(found, "mount "+line)
		}
	}
	programs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range programs {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), dir+"/") {
			found = append(found, fmt.Sprintf("%s %q", file, text))
		}
	}
	if err := refuseOther(t.Context()); err != nil {
		found = append(found, "KUBE-SERVICES")
	}
	return found
}

// A stopped node and a killed one leave nothing, the killed one after the next
// start, whose state folder is another.
func TestNodeLeavesNothing(t *testing.T) {
	requireNode(t)
	dir := t.TempDir()
	run := func(cp *ControlPlane) {
		t.Helper()
		if _, err := cp.Kubectl(t.Context(), nil, "run", "--image", BusyboxImage, "--image-pull-policy=Never", "sleeper"); err != nil {
			t.Fatal(err)
		}
		if _, err := cp.Kubectl(t.Context(), nil, "wait", "--for=condition=Ready", "pod/sleeper", "--timeout=180s"); err != nil {
			t.Fatal(err)
		}
	}
	killed := startForTest(t, Options{Dir: dir, Node: true})
	run(killed)
	if len(traces(t, dir)) < 10 {
		t.Fatalf("this test does not see what a node has: %v", traces(t, dir))
	}
	// As if this program were killed: its children die at once, its lock is gone.
	for _, s := range killed.running {
		_ = s.process.kill()
	}
	killed.running = nil
	killed.node.cancel()
	_ = killed.node.marker.Close()
	killed.node = nil

	next := startForTest(t, Options{Node: true})
	for _, left := range traces(t, dir) {
		if strings.Contains(left, dir) {
			t.Errorf("left by the killed one: %s", left)
		}
	}
	run(next)
	if err := next.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := traces(t, next.state.dir); len(left) > 0 {
		t.Errorf("left by the stopped one: %v", left)
	}
}

func TestChainRemoval(t *testing.T) {
	const saved = `# Generated by iptables-save
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:OTHER - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -j OTHER
-A KUBE-SERVICES -j KUBE-SERVICES
COMMIT
`
	const want = `*nat
:KUBE-SERVICES - [0:0]
-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-X KUBE-SERVICES
COMMIT
`
	if got := chainRemoval("nat", saved); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := chainRemoval("nat", strings.ReplaceAll(saved, "KUBE-", "OTHER-")); got != "" {
		t.Errorf("nothing to remove, got\n%s", got)
	}
}
