package backup

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
)

// How many there are; a tenth where the test is asked to be short.
const (
	clusters = 200
	each     = 5
)

// What the controller may take.
const (
	mostMemory   = 200 << 20
	mostRequests = 6 // of the API server, for each pod and backup
)

// A backup of a thousand pods in two hundred clusters at once keeps the controller
// within its bounds.
func TestThousandPods(t *testing.T) {
	ctx, e := start(t, 25*time.Minute)
	n := clusters
	if os.Getenv(ScaleEnv) != "full" {
		n /= 10 // for `make test`; the command that shows it asks for all
	}
	rings := make([]*Ring, n)
	began := time.Now()
	each10(n, func(i int) {
		r, err := e.NewRing(ctx, fmt.Sprintf("scale-%03d", i), each, takes(3*time.Second))
		if err != nil {
			t.Error(err)
		}
		rings[i] = r
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%d pods run after %s", n*each, time.Since(began).Round(time.Second))
	before := e.usage(ctx, t)
	began = time.Now()
	each10(n, func(i int) {
		if err := rings[i].Ask(ctx, "b", api.BackupSpec{Timeout: &metav1.Duration{Duration: 20 * time.Minute}}); err != nil {
			t.Error(err)
		}
	})
	var done atomic.Int32
	each10(n, func(i int) {
		b, err := rings[i].Ends(ctx, "b", 15*time.Minute)
		if err == nil {
			err = rings[i].Judge(b, api.BackupComplete)
		}
		if err != nil {
			t.Error(err)
			return
		}
		done.Add(1)
	})
	took := time.Since(began)
	after := e.usage(ctx, t)
	requests := float64(after.requests-before.requests) / float64(n*each)
	writes := float64(after.writes-before.writes) / float64(n*each)
	cores := (after.cpu - before.cpu).Seconds() / took.Seconds()
	raced := os.Getenv(rigged.RaceEnv) == "1" // which takes several times as much
	if after.memory > mostMemory && !raced {
		t.Errorf("the controller took %d MiB, at most %d are allowed", after.memory>>20, mostMemory>>20)
	}
	if requests > mostRequests {
		t.Errorf("%.1f requests for each pod and backup, at most %d are allowed", requests, mostRequests)
	}
	if cores > 1 && !raced {
		t.Errorf("the controller took %.2f cores", cores)
	}
	figure(t, "%d backups of %d pods complete after %s: %.2f API requests for each pod (%.2f of them write), %d MiB at most, %.2f cores", done.Load(), n*each, took.Round(time.Second), requests, writes, after.memory>>20, cores)
}

// each10 does something for each, ten at a time.
func each10(n int, do func(i int)) {
	var all sync.WaitGroup
	turns := make(chan struct{}, 10)
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			do(i)
		})
	}
	all.Wait()
}

// usage is what the controller has taken so far.
type usage struct {
	memory           int64 // at most, in bytes
	cpu              time.Duration
	requests, writes int
}

func (e *Env) usage(ctx context.Context, t *testing.T) (u usage) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.Controller.MetricsURL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "process_cpu_seconds_total ") {
			seconds, err := strconv.ParseFloat(strings.Fields(line)[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			u.cpu = time.Duration(seconds * float64(time.Second))
		}
		if strings.HasPrefix(line, "rest_client_requests_total{") {
			fields := strings.Fields(line)
			count, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				t.Fatal(err)
			}
			u.requests += int(count)
			if !strings.Contains(line, `method="GET"`) {
				u.writes += int(count)
			}
		}
	}
	u.memory = peak(t, e.Program("stategraft"))
	return u
}

// peak is the most memory that the controller's process has had (VmHWM of proc(5)).
func peak(t *testing.T, program string) (most int64) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(text), program+"\x00controller\x00") {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(file), "status"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
				kb, err := strconv.ParseInt(fields[1], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				most = max(most, kb<<10)
			}
		}
	}
	if most == 0 {
		t.Fatal("the controller's process is not found")
	}
	return most
}
