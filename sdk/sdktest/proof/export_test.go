package proof

const (
	Detector = detector
	Long     = long
)
