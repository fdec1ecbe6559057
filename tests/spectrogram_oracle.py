#!/usr/bin/env python3
"""MelSpectrogram, MFCC and STFTSpectrogram in float64, by NumPy, for
tests/core/layers/spectrogram_test.cc and stft_test.cc.

    spectrogram_oracle.py FOLDER

For each case of FOLDER/cases.txt, a line "CLASS FIELD=VALUE ... FILE", prints
the values. FILE has the samples of one example in float32, of one channel if
there is no field channels. Values of STFTSpectrogram's fields that are names
are quoted JSON. The formulas are
those of Keras's MelSpectrogram, of tf.signal (stft,
linear_to_mel_weight_matrix, mfccs_from_log_mel_spectrograms) and, with htk=0,
of librosa.filters.mel.
"""
import json
import pathlib
import sys

import numpy as np


def hann(length):
    period = length - length % 2  # tf.signal.hann_window
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / period)


def htk_matrix(bins, rate, mels, low, high):
    def mel(hertz):
        return 1127 * np.log(1 + hertz / 700)
    at = mel(np.linspace(0, rate / 2, bins)[1:])[:, None]
    edges = np.linspace(mel(low), mel(high), mels + 2)
    rise = (at - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - at) / (edges[2:] - edges[1:-1])
    return np.pad(np.maximum(0, np.minimum(rise, fall)), ((1, 0), (0, 0)))


def slaney_matrix(bins, rate, mels, low, high):
    step = np.log(6.4) / 27

    def mel(hertz):
        return (hertz * 3 / 200 if hertz < 1000 else
                15 + np.log(hertz / 1000) / step)
    edges = np.linspace(mel(low), mel(high), mels + 2)
    edges = np.where(edges < 15, edges * 200 / 3,
                     1000 * np.exp(step * (edges - 15)))
    at = np.linspace(0, rate / 2, bins)
    ramps = edges[:, None] - at
    widths = np.diff(edges)[:, None]
    weights = np.maximum(0, np.minimum(-ramps[:-2] / widths[:-1],
                                       ramps[2:] / widths[1:]))
    return (weights * (2 / (edges[2:] - edges[:-2]))[:, None]).T


def powers(x, length, stride, fft, centered):
    """Magnitudes of (frames, frequencies)."""
    window = hann(length)
    if centered:
        x = np.pad(x, fft // 2, mode="reflect")
        before = (fft - length) // 2
        window = np.pad(window, (before, fft - length - before))
    count = (len(x) - len(window)) // stride + 1
    frames = [x[i * stride:i * stride + len(window)] for i in range(count)]
    return np.abs(np.fft.rfft(frames * window, n=fft))


def mel_spectrogram(x, f):
    fft = int(f["fft_length"])
    power = powers(x, int(f["sequence_length"]) or fft,
                   int(f["sequence_stride"]), fft, True) ** f["mag_exp"]
    mel = power @ htk_matrix(fft // 2 + 1, f["sampling_rate"],
                             int(f["num_mel_bins"]), f["min_freq"],
                             f["max_freq"])
    if f["power_to_db"]:
        mel = 10 * np.log10(np.maximum(mel, f["min_power"]))
        mel -= 10 * np.log10(max(abs(f["ref_power"]), f["min_power"]))
        mel = np.maximum(mel, mel.max() - f["top_db"])
    return mel.T


def mfcc(x, f):
    length, count = int(f["sequence_length"]), int(f["num_mfcc"])
    fft = int(f["fft_length"]) or 1 << (length - 1).bit_length()
    power = powers(x, length, int(f["sequence_stride"]), fft,
                   f["center"] != 0) ** f["mag_exp"]
    matrix = htk_matrix if f["htk"] else slaney_matrix
    mels = int(f["num_mel_bins"])
    log = np.log(power @ matrix(fft // 2 + 1, f["sampling_rate"], mels,
                                f["min_freq"], f["max_freq"])
                 + f["log_offset"])
    if f["power_to_db"]:
        log *= 10 / np.log(10)
    if count == 0:
        return log
    k, n = np.arange(count)[:, None], np.arange(mels)
    dct = 2 * np.cos(np.pi / mels * (n + 0.5) * k)
    return log @ dct.T / np.sqrt(2 * mels)


def stft_window(f):
    length = f["frame_length"]
    if f["window"] is None:
        return np.ones(length)
    least = {"hann": 0.5, "hamming": 0.54}[f["window"]]
    turns = np.arange(length) / (length if f["periodic"] else length - 1)
    window = least - (1 - least) * np.cos(2 * np.pi * turns)
    scale = {None: 1, "density": np.sqrt((window ** 2).sum()),
             "spectrum": np.abs(window).sum()}[f["scaling"]]
    return window / scale


def stft_spectrogram(x, f):
    """Keras's convolutions: kernels of cosines and sines times the window."""
    length = f["frame_length"]
    step = f["frame_step"] or length // 2
    fft = f["fft_length"] or 1 << (length - 1).bit_length()
    if f["padding"] == "same":
        count = -(-len(x) // step)
        pad = max((count - 1) * step + length - len(x), 0)
        x = np.pad(x, ((pad // 2, pad - pad // 2), (0, 0)))
    count = (len(x) - length) // step + 1
    turns = np.outer(np.arange(length), np.arange(fft // 2 + 1)) / fft
    kernels = np.exp(-2j * np.pi * turns) * stft_window(f)[:, None]
    y = np.array([[x[t * step:t * step + length, c] @ kernels
                   for c in range(x.shape[1])] for t in range(count)])
    power = np.abs(y) ** 2
    mode = f["mode"]
    if mode == "stft":
        y = np.concatenate([y.real, y.imag], axis=2)
    elif mode in ("real", "imag"):
        y = getattr(y, mode)
    elif mode == "angle":
        y = np.arctan2(y.imag, y.real)
    elif mode == "psd":
        y = power
        y[:, :, 1:-1] *= 2
    else:
        y = np.sqrt(np.maximum(power, 1e-7))
        if mode == "log":
            y = np.log(np.maximum(y, 1e-7))
    if f["expand_dims"]:  # (frames, frequencies, channels)
        return y.transpose(0, 2, 1)
    return y.reshape(count, -1)


STFT_DEFAULTS = {
    "mode": "log", "frame_length": 256, "frame_step": None, "fft_length": None,
    "window": "hann", "periodic": False, "scaling": "density",
    "padding": "valid", "expand_dims": False}
MEL_DEFAULTS = {
    "sampling_rate": 16000, "sequence_stride": 512, "num_mel_bins": 128,
    "min_freq": 20, "max_freq": None, "power_to_db": True, "mag_exp": 2,
    "fft_length": 2048, "sequence_length": None, "top_db": 80,
    "min_power": 1e-10, "ref_power": 1}
MFCC_DEFAULTS = {
    "sampling_rate": 16000, "sequence_stride": 320, "num_mel_bins": 40,
    "min_freq": 20, "max_freq": 4000, "power_to_db": False, "mag_exp": 1,
    "fft_length": None, "sequence_length": 480, "num_mfcc": 10,
    "log_offset": 1e-6, "htk": True, "center": False}


def features(kind, config, x):
    """The features of one example, as a layer of class `kind` with this config computes them."""
    if kind == "STFTSpectrogram":
        return stft_spectrogram(x, {**STFT_DEFAULTS, **config})
    mel = kind == "MelSpectrogram"
    f = {**(MEL_DEFAULTS if mel else MFCC_DEFAULTS), **config}
    if f["max_freq"] is None:
        f["max_freq"] = f["sampling_rate"] // 2
    f = {name: 0 if value is None else value for name, value in f.items()}
    return (mel_spectrogram if mel else mfcc)(x, f)


def main():
    folder = pathlib.Path(sys.argv[1])
    for line in (folder / "cases.txt").read_text().splitlines():
        kind, *fields, name = line.split()
        fields = {key: json.loads(value) for key, value in
                  (field.split("=") for field in fields)}
        x = np.fromfile(folder / name, dtype="<f4").astype(np.float64)
        if kind == "STFTSpectrogram":
            x = x.reshape(-1, fields.pop("channels"))
        print(*features(kind, fields, x).ravel())


if __name__ == "__main__":
    main()
