package deploy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// series reads the gauges of one name from the pods of a component, by their
// labels. Only a controller that leads has any.
func (e *Env) series(ctx context.Context, component, name string) (map[string]float64, error) {
	pods, err := e.Client.CoreV1().Pods(Home).List(ctx, metav1.ListOptions{LabelSelector: ownPods + component})
	if err != nil {
		return nil, err
	}
	found := map[string]float64{}
	var left []error
	for _, pod := range pods.Items {
		if pod.Status.PodIP != "" && isReady(&pod) {
			left = append(left, scrape(ctx, "http://"+pod.Status.PodIP+":8080/metrics", name, found))
		}
	}
	return found, errors.Join(left...)
}

func scrape(ctx context.Context, url, name string, into map[string]float64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return fmt.Errorf("reading metrics: %w", err)
	}
	for _, m := range families[name].GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}
		into[strings.Join(labels, ",")] += m.GetGauge().GetValue()
	}
	return nil
}
