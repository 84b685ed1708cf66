package adopt

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Series are the values of a metric of the controller, by the value of its one label.
func (e *Env) Series(ctx context.Context, metric string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.Controller.MetricsURL(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the controller's metrics: %w", err)
	}
	defer response.Body.Close()
	series := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), metric+"{")
		if !ok {
			continue
		}
		label, value, _ := strings.Cut(labels, "} ")
		_, label, _ = strings.Cut(label, "=")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("reading metric %s: %w", metric, err)
		}
		series[strings.Trim(label, `"`)] = number
	}
	return series, lines.Err()
}
