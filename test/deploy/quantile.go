package deploy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Buckets is how many requests took at most so many seconds, by the histogram's
// upper bounds.
type Buckets struct {
	Total float64
	Below map[float64]float64 // cumulative
}

// AdmissionTimes reads how long the API server waited for a webhook's answers
// (apiserver_admission_webhook_admission_duration_seconds).
func (e *Env) AdmissionTimes(ctx context.Context) (Buckets, error) {
	text, err := e.Client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return Buckets{}, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	return admissionTimes(string(text))
}

func admissionTimes(text string) (Buckets, error) {
	const name = "apiserver_admission_webhook_admission_duration_seconds"
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return Buckets{}, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	b := Buckets{Below: map[float64]float64{}}
	for _, m := range families[name].GetMetric() {
		if label(m, "name") != "pods.stategraft.io" || label(m, "operation") != "CREATE" {
			continue
		}
		b.Total += float64(m.GetHistogram().GetSampleCount())
		for _, bucket := range m.GetHistogram().GetBucket() {
			b.Below[bucket.GetUpperBound()] += float64(bucket.GetCumulativeCount())
		}
	}
	return b, nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// Since are the requests since an earlier reading.
func (b Buckets) Since(before Buckets) Buckets {
	d := Buckets{Total: b.Total - before.Total, Below: map[float64]float64{}}
	for bound, n := range b.Below {
		d.Below[bound] = n - before.Below[bound]
	}
	return d
}

// Within is the share of requests that took at most so many seconds, which has
// to be one of the histogram's bounds.
func (b Buckets) Within(seconds float64) float64 { return b.Below[seconds] / b.Total }

// String is the share within each bound.
func (b Buckets) String() string {
	var parts []string
	for _, bound := range slices.Sorted(maps.Keys(b.Below)) {
		parts = append(parts, fmt.Sprintf("%.2f %% within %v s", 100*b.Within(bound), bound))
	}
	return strings.Join(parts, ", ")
}
