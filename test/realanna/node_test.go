package realanna

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/config"
)

// shape is how a cluster is configured.
type shape struct {
	memory, ebs, routing int // threads
	inMemory, onDisk     int // replication
	managed              bool
}

// management is the name of the management.
const management = "hydro-management.kvs.svc.cluster.local"

// section is what Anna's processes read of it.
func (s shape) section(disk string) string {
	return fmt.Sprintf(`ebs: %s
capacities: {memory-cap: 4, ebs-cap: 4}
threads: {memory: %d, ebs: %d, routing: %d, benchmark: 1}
replication: {memory: %d, ebs: %d, minimum: 1, local: 1}
policy: {elasticity: false, selective-rep: false, tiering: false}
`, disk, s.memory, s.ebs, s.routing, s.inMemory, s.onDisk)
}

// node is a pod: a network of its own, a process of Anna's in it, and a sidecar.
type node struct {
	*cluster
	name, role, ip string
	dir            string // of the pod's volumes; Anna's process runs in dir/anna
	network        *exec.Cmd
	database       *exec.Cmd
	sidecar        *exec.Cmd
	log            *os.File // of the sidecar
}

var services = map[string]string{config.RoleMemory: "anna-memory", config.RoleDisk: "anna-ebs", config.RoleRouting: "anna-routing"}

func (n *node) host() string {
	return n.name + "." + services[n.role] + ".kvs.svc.cluster.local"
}

// place makes a pod's network and files.
func (c *cluster) place(role, name, ip string) *node {
	c.t.Helper()
	n := &node{cluster: c, name: name, role: role, ip: ip, dir: filepath.Join(c.dir, name)}
	n.network = exec.Command("unshare", "-n", "sh", "-c", "echo ready; exec cat")
	n.network.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := n.network.StdinPipe()
	must(c.t, err)
	out, err := n.network.StdoutPipe()
	must(c.t, err)
	must(c.t, n.network.Start())
	c.t.Cleanup(func() { n.stop(); _ = in.Close(); _ = n.network.Wait() })
	ready := make([]byte, 6)
	if _, err := out.Read(ready); err != nil {
		c.t.Fatal(err)
	}
	c.net.wire(n.network.Process.Pid, ip)
	c.net.name(n.host(), ip)
	disk := filepath.Join(n.dir, "ebs")
	for tid := range c.shape.ebs {
		must(c.t, os.MkdirAll(filepath.Join(disk, "ebs_"+strconv.Itoa(tid)), 0o755))
	}
	n.configure()
	return n
}

// configure writes what setup would.
func (n *node) configure() {
	n.t.Helper()
	routing := n.routingHosts()
	own := fmt.Sprintf("routing: {ip: %s, monitoring: []}\n", n.host())
	if n.role != config.RoleRouting {
		manager := "NULL"
		if n.shape.managed {
			manager = management
		}
		own = fmt.Sprintf("server:\n  seed_ip: %s\n  public_ip: %[2]s\n  private_ip: %[2]s\n  mgmt_ip: %q\n  monitoring: []\n  routing: [%s]\n",
			routing[0], n.host(), manager, strings.Join(routing, ", "))
	}
	anna := n.shape.section(filepath.Join(n.dir, "ebs"))
	for name, text := range map[string]string{
		"config/anna-config.yml":           anna + "stategraft: {domain: cluster.local, depart-after: 20s}\n",
		"anna/conf/anna-config.yml":        anna + own,
		"etc/stategraft/medusa/medusa.ini": fmt.Sprintf("[storage]\nstorage_provider = local\nbucket_name = bucket\nbase_path = %s\nprefix = kvs\n", n.storage),
		"stategraft/.there":                "",
		"private/.there":                   "",
	} {
		path := filepath.Join(n.dir, name)
		must(n.t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(n.t, os.WriteFile(path, []byte(text), 0o644))
	}
}

// within is a command in the pod's network.
func (n *node) within(args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(n.network.Process.Pid), "-n", "nice", "-n", "5"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start starts Anna's process.
func (n *node) start() {
	n.t.Helper()
	program := "anna-kvs"
	if n.role == config.RoleRouting {
		program = "anna-route"
	}
	n.database = n.within(filepath.Join(os.Getenv(programsEnv), program))
	n.database.Dir = filepath.Join(n.dir, "anna")
	n.database.Env = append(os.Environ(), "SERVER_TYPE="+n.role)
	out, err := os.OpenFile(filepath.Join(n.database.Dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(n.t, err)
	defer out.Close()
	n.database.Stdout, n.database.Stderr = out, out
	must(n.t, n.database.Start())
}

// lose kills Anna's process, as the kernel does.
func (n *node) lose() {
	if n.database != nil {
		_ = n.database.Process.Kill()
		_ = n.database.Wait()
		n.database = nil
	}
}

// stop ends all of the pod but its network.
func (n *node) stop() {
	n.lose()
	n.killSidecar()
}

// gone ends a pod for good.
func (n *node) gone() {
	n.t.Helper()
	n.stop()
	n.net.name(n.host(), "")
	_ = n.network.Process.Kill()
}

// usage is what a process takes.
type usage struct{ files, sockets, memory int }

func (n *node) usage() (u usage) {
	n.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", n.database.Process.Pid)
	all, err := os.ReadDir(proc + "fd")
	must(n.t, err)
	for _, f := range all {
		u.files++
		if to, _ := os.Readlink(proc + "fd/" + f.Name()); strings.HasPrefix(to, "socket:") {
			u.sockets++
		}
	}
	text, err := os.ReadFile(proc + "status")
	must(n.t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			u.memory = kb << 10
		}
	}
	return u
}

// listens tells whether somebody takes connections there.
func listens(host string, port int) bool {
	c, err := net.DialTimeout("tcp", net.JoinHostPort(host, strconv.Itoa(port)), time.Second)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// eventually waits, and tells how long that was.
func eventually(t *testing.T, what string, most time.Duration, is func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > most {
			t.Fatalf("not within %s: %s", most, what)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return time.Since(began)
}
