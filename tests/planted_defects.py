"""Mistakes that a developer could make, each with the test that catches it.

For tests/rules.py --of defects. An entry has a name, a file, the text to
replace and its replacement, and the suite and test that must fail. The file
has the text once. Further pairs of text and replacement may follow the first.
"""
DEFECTS = {
    # core/base
    "arena: buffers of neighbouring steps share bytes":
        ("core/base/arena.cc",
         "other->first <= buffer.last && buffer.first <= other->last;",
         "other->first < buffer.last && buffer.first < other->last;",
         ("core_graph",
          "LifetimePlanTest.Buffers_LivingTogether_ShareNoByte")),
    "json: the lock is released as soon as it is taken":
        ("core/base/json.cc",
         "const std::lock_guard<std::mutex> lock(ParserMutex());",
         "std::lock_guard<std::mutex>{ParserMutex()};",
         ("core_base", "JsonTest.Parse_SeveralThreads_RunsOneAtATime")),
    "threads: one rounds as the thread that started it":
        ("core/base/thread.cc",
         "  const IeeeArithmetic ieee;\n",
         "",
         ("core_result",
          "OneResultTest.Training_AnyArithmeticModeOfCaller_HasOneResult")),
    # core/compute
    "convert: only the last number is checked for NaN":
        ("core/compute/convert.cc",
         "found |= static_cast",
         "found = static_cast",
         ("core_fit",
          "FitTest.Fit_LabelOutsideTheClassesOrNan_ErrorNamesIt")),
    "gemm: a tile takes as much stack as a block":
        ("core/compute/gemm.cc",
         "kMaxTile = 12 * 32;",
         "kMaxTile = 128 * 512;",
         ("program_stack",
          "StackTest.Threads_OfTheLibrary_UseAQuarterOfTheirStacks")),
    "pool: the last of equal pixels takes the gradient":
        ("core/compute/pool_loops.cc",
         "(v > max) | (v != v);  // NOLINT: of NaN\n"
         "          max = wins",
         "(v >= max) | (v != v);  // NOLINT: of NaN\n"
         "          max = wins",
         ("core_compute",
          "PoolLoops.MaximaAndGradients_AnyWindow_EqualTheReference")),
    # core/data
    "dataset: a short last batch has whole pieces":
        ("core/data/dataset.cc",
         "plan.count = std::min(piece, plan.global_count - plan.first);",
         "plan.count = piece;",
         ("core_data",
          "DatasetTest.Batch_SeveralWorkers_IsCutAsInTensorFlow")),
    "dataset: a second Map does not scale the first offset":
        ("core/data/dataset.cc",
         "d.scale.offset * scale.factor + scale.offset;",
         "d.scale.offset + scale.offset;",
         ("core_data",
          "DatasetTest.Map_CalledTwice_ScalesWhatTheFirstMade")),
    "dataset: Skip counts examples of the source":
        ("core/data/dataset.cc",
         "d.first += count * d.stride;",
         "d.first += count;",
         ("core_data",
          "DatasetTest.SkipTakeAndShard_InAnyOrder_ChooseTheExamples")),
    "zip: two threads share a buffer without the lock":
        ("core/data/zip.cc",
         "    std::lock_guard<std::mutex> lock(mutex_);\n",
         "",
         ("core_data",
          "DatasetTest.Zip_TwoThreadsRead_EachGetsItsOwnExample")),
    # core/layers
    "attention: a causal query sees the next value":
        ("core/layers/attention/attend.cc",
         "block.begin + query + 1)",
         "block.begin + query + 2)",
         ("core_layers",
          "AttentionTest.CausalMask_LaterSteps_ChangeNoEarlierOutput")),
    "attention: only the last block of queries gives a key its gradient":
        ("core/layers/attention/attend.cc",
         "query.Rows(begin, end), /*add=*/true,",
         "query.Rows(begin, end), /*add=*/false,",
         ("core_layers", "AttentionTest."
          "Gradients_OfSeveralBlocksOfQueries_MatchTheOutputs")),
    "transposed convolution: strides beyond the kernel add no pixels":
        ("core/layers/convolution/window.cc",
         "std::max(extent(), stride)",
         "extent()",
         ("core_layers",
          "ConvolutionTest.ConvTranspose_EachPadding_HasKerasSize")),
    "noise: each step draws the numbers of the first":
        ("core/layers/basic/noise.cc",
         "const Philox random(call.seed, call.counter);",
         "const Philox random(call.seed, 0);",
         ("core_layers", "NoiseTest.Noise_EachPlace_HasItsOwnNumber")),
    "augmentation: images turn clockwise":
        ("core/layers/preprocessing/augmentation.cc",
         "  const double sine = math::CosPi(half_turns - 0.5);",
         "  const double sine = -math::CosPi(half_turns - 0.5);",
         ("core_layers",
          "AugmentationTest.EachLayer_SomeThousandDraws_EqualsKerasInNumPy")),
    "augmentation: all images of a step have the same numbers":
        ("core/layers/preprocessing/example_draw.h",
         ".At(4 * static_cast<uint64_t>(example))) {}",
         ".At(0 * static_cast<uint64_t>(example))) {}",
         ("core_layers",
          "AugmentationTest.EachLayer_SomeThousandDraws_EqualsKerasInNumPy")),
    "resizing: a border repeats the image's last row":
        ("core/layers/preprocessing/resizing.cc",
         "std::max<int64_t>(inside, -1) : -1;",
         "std::max<int64_t>(inside, 0) : size - 1;",
         ("core_layers",
          "AugmentationTest.EachLayer_SomeThousandDraws_EqualsKerasInNumPy")),
    "upsampling: columns have the factor of the rows":
        ("core/layers/basic/image_ops.cc",
         "x / width_) * image_[2]",
         "x / height_) * image_[2]",
         ("core_layers",
          "ImageOpsTest.Pixels_PaddedCroppedOrPermuted_GoWhereTheyShould")),
    "initializers: a cut normal keeps the uncut deviation":
        ("core/layers/initializers.cc",
         "b = std::sqrt(variance) / kTruncatedDeviation;",
         "b = std::sqrt(variance);",
         ("core_layers",
          "InitializersTest.Values_EachInitializer_HaveKerasDistribution")),
    # core/model
    "gradients: squares of a norm are summed in float32":
        ("core/step/gradients.cc",
         "  return LaneSum<double>(g.size,\n"
         "                         [d](int64_t i) { return double{d[i]} "
         "* d[i]; });",
         "  return LaneSum<float>(g.size, [d](int64_t i) { return d[i] * "
         "d[i]; });",
         ("core_objective",
          "OptimizersTest.Norm_ManySmallBesideLarge_CountsThemAll")),
    "metrics: a threshold of AUC counts what lies on it":
        ("core/objective/confusion_metrics.cc",
         "std::ceil(p * last) - 1;",
         "std::floor(p * last);",
         ("core_objective", "MetricsTest.Values_OtherMetrics_EqualKeras")),
    "batch normalization: a second call forgets the first":
        ("core/layers/normalization/batch_normalization.cc",
         "call.weights[weight][c] + changes[c];",
         "call.weights[weight][c];",
         ("core_model",
          "NestedTest.BatchNormalization_Shared_MovesOnceForEachCall")),
    "moving averages: weights take them a step late":
        ("core/step/updater.cc",
         "(updates + 1) % every == 0;",
         "updates % every == 0;",
         ("core_objective",
          "EmaTest.Overwrite_EveryThirdStep_MakesTheWeightsTheAverages")),
    "schedules: a boundary's step has the next rate":
        ("core/objective/schedules.cc",
         "iterations <= boundaries[i]",
         "iterations < boundaries[i]",
         ("core_objective", "SchedulesTest.Rate_EverySchedule_EqualsKeras")),
    "sparse delta: the error of what was sent is dropped":
        ("core/exchange/sparse_delta.cc",
         "error[positions[i]] -= values[i];",
         "error[positions[i]] = 0;",
         ("core_exchange",
          "SparseDeltaTest.Encode_AnyDelta_SendsTheGreatestAndKeepsTheRest")),
    "participation: each round draws the same replicas":
        ("core/exchange/participation.cc",
         "random.At(static_cast<uint64_t>(step) * replicas + r);",
         "random.At(static_cast<uint64_t>(r));",
         ("core_rounds",
          "FederatedTest.Sample_ManyRounds_ChoosesReplicasEquallyOften")),
    "worker throughput: the median of two is the upper one":
        ("core/exchange/worker_throughput.cc",
         "(all.size() - 1) / 2",
         "all.size() / 2",
         ("core_exchange",
          "WorkerThroughputTest.Shortest_ManyStepsAdded_CountsTheLastOnes")),
    # core/fit
    "reduce on plateau: the cooldown is not saved":
        ("core/fit/callbacks.cc",
         "    spans->push_back(\n"
         '        Int64State("callback/reduce_lr_on_plateau/cooldown", '
         "&cooldown_));\n",
         "",
         ("core_fit",
          "ReduceLROnPlateauTest.State_SavedInACooldown_ContinuesIt")),
    "monitor: min_delta has the wrong sign where more is better":
        ("core/fit/monitor.cc",
         "value - min_delta_ > best",
         "value + min_delta_ > best",
         ("core_fit",
          "EarlyStoppingTest.MinDelta_OfAMetricThatGrows_IsWhatMustBeExce"
          "eded")),
    "early stopping: start_from_epoch itself is left out":
        ("core/fit/callbacks.cc",
         "fit.epoch < options_.start_from_epoch",
         "fit.epoch <= options_.start_from_epoch",
         ("core_fit",
          "EarlyStoppingTest.StartFromEpoch_EarlierEpochs_AreIgnored")),
    "progress: the time of a step is a thousand times too long":
        ("core/fit/progress.cc",
         "         1e-9 / static_cast<double>(steps_since);",
         "         1e-6 / static_cast<double>(steps_since);",
         ("core_training", "SampleTest.MnistFit_SmallSet_PrintsKerasLines")),
    "stop requests: an interruption is not passed on":
        ("core/fit/stop_requests.cc",
         "  if ((request & kInterrupted) != 0) fit->interrupted = true;\n",
         "",
         ("core_job",
          "JobTest.Signal_ToOneWorker_SavesAndEndsTheJobResumable")),
    "stop requests: the mask of what is kept is inverted":
        ("core/fit/stop_requests.cc",
         "request_ | (RequestOf(fit) & ~kStop)",
         "request_ | (RequestOf(fit) & kStop)",
         ("core_elastic",
          "ElasticTest.StopRequest_AnotherWorkerIsLost_IsKept")),
    # io/files
    "atomic file: the folder is not synced":
        ("io/files/atomic_file.cc",
         "  return files_->SyncName(path_);",
         "  return Status();",
         ("io_checkpoint",
          "*CheckpointCrashTest.PowerCut_AtRandom_LosesNoDurableCheckpoint/*")),
    "atomic file: renamed before its data are durable":
        ("io/files/atomic_file.cc",
         "  Status written = file_->Sync();\n"
         "  if (written.ok()) written = file_->Close();",
         "  Status written = file_->Close();",
         ("io_checkpoint",
          "*CheckpointCrashTest.PowerCut_AtRandom_LosesNoDurableCheckpoint/*")),
    "sealed files: a piece that failed stands for the one before":
        ("io/files/sealing.cc",
         "    fetched_ = -1;\n",
         "",
         ("io_files",
          "SealedFilesTest.Read_AfterADamagedPiece_GivesTheOneBeforeAgain")),
    "input file: gzip data may end early":
        ("io/files/input_file.cc",
         "*got < bytes && code == Z_BUF_ERROR",
         "*got < bytes && code == Z_DATA_ERROR",
         ("io_readers",
          "CsvTest.Gzip_CutOrDamaged_IsRefused")),
    # io/pictures
    "pictures: the product of the sizes is not checked":
        ("io/pictures/decoders.cc",
         "height <= max_pixels / width)",
         "height <= max_pixels)",
         ("io_pictures", "PngTest.Decode_HugeSize_IsRefusedBeforeAllocation")),
    "pictures: the centres of pixels are at whole numbers":
        ("io/pictures/resize.cc",
         "const int64_t at = (2 * i + 1) * part.size - count;",
         "const int64_t at = 2 * i * part.size;",
         ("io_pictures", "ResizeTest.Resize_TwoPixels_HaveKerasValues")),
    # io/sound, core/layers
    "sound: the padding of an odd chunk is not skipped":
        ("io/sound/wav.cc",
         "begin + int64_t{bytes} + bytes % 2",
         "begin + int64_t{bytes}",
         ("io_sound", "WavTest.Chunks_OfAnyOrderAndOddLength_AreSkipped")),
    "sound: the window is symmetric":
        ("core/layers/preprocessing/spectrogram_plan.cc",
         "static_cast<double>(length - length % 2);",
         "static_cast<double>(length - 1);",
         ("core_layers", "SpectrogramTest.EachLayer_RandomSamples_IsTheFormulaInFloat64")),
    "sound: the noise is in evaluation too":
        ("core/data/dataset_loader.cc",
         "options_.augments && x != nullptr",
         "x != nullptr",
         ("io_readers", "SoundChangesTest.Dataset_OpenedForTraining_IsChanged")),
    "sound: all batches of a pass have the same noise":
        ("io/readers/files/sound_changes.cc",
         "Philox(options_.seed, pass).At(used)",
         "Philox(options_.seed, pass).At(0)",
         ("io_readers",
          "SoundChangesTest.Change_SameKey_IsTheSameAndOthersDiffer")),
    "masks: a masked step changes the state":
        ("core/layers/recurrent/recurrent.cc",
         "      CopyMasked(step, examples, s, scratch.kept, step.state.data);\n",
         "",
         ("core_model", "MasksTest.Padding_OfARecurrentLayer_ChangesNoBit")),
    "time distributed: a layer without a gradient seems to have one":
        ("core/layers/recurrent/time_distributed.cc",
         "  bool has_gradient() const override { return op_->has_gradient(); }\n",
         "",
         ("core_layers",
          "TimeDistributedTest.AnyLayer_WritesGradientOfInputOrHasNone")),
    # io/readers
    "csv: a last row without its line end is dropped":
        ("io/readers/tables/csv_records.cc",
         "    if (!ends) continue;\n",
         "    if (!ends) {\n"
         "      *more = false;\n"
         "      continue;\n"
         "    }\n",
         ("io_readers", "CsvTest.Lines_AnyOrNoEnd_AreRead")),
    "csv: a row with too many fields is read":
        ("io/readers/tables/csv_reader.cc",
         "if (fields.size() != columns_.count()) {",
         "if (fields.size() < columns_.count()) {",
         ("io_readers", "CsvTest.Rows_OfOtherLengths_AreRefusedWithTheirLine")),
    "csv: a row on disk has its categories in the order of the rows":
        ("io/readers/tables/table_encoder.cc",
         "number = index = static_cast",
         "index = static_cast",
         ("io_readers", "OnDiskTest.Csv_AnyTable_HasTheBitsInMemory")),
    "idx: the product of the dimensions is not checked":
        ("io/readers/arrays/idx.cc",
         "if (elements > max_elements / dim) {",
         "if (elements > max_elements) {",
         ("io_readers",
          "IdxTest.Read_HugeDimensions_AreRefusedBeforeMemoryIsTaken")),
    "npy: examples on disk that follow each other are read as one":
        ("io/readers/arrays/array_on_disk.cc",
         "index[i + run] == index[i] + run;) ++run;",
         "index[i + run] >= index[i] + run;) ++run;",
         ("io_readers", "OnDiskTest.Npy_EveryTypeAndOrder_HasTheBitsInMemory")),
    "npy: text of the other byte order is reversed whole":
        ("io/readers/arrays/npy_layout.cc",
         "layout.kind == 'U' ? 4 : width;",
         "width;",
         ("io_readers",
          "TextLabelsTest.Labels_OfText_AreClassesInTheOrderOfTheirNames")),
    # io/keras
    "layers: a pool's strides are its height":
        ("io/keras/layer_json.cc",
         "std::copy_n(entry->layer.window, 2, entry->layer.*member);",
         "std::fill_n(entry->layer.*member, 2, entry->layer.window[0]);",
         ("io_keras",
          "ModelJsonTest.Pool_StridesLeftOutOrNull_EqualTheWindow")),
    "activations: Keras 2's hard_sigmoid is that of Keras 3":
        ("io/keras/layer_json.cc",
         "if (entry->keras2 && *activation == kHardSigmoid) {",
         "if (entry->has_input && *activation == kHardSigmoid) {",
         ("io_keras",
          "ActivationsJsonTest.HardSigmoid_AnyWriter_IsTheWriters")),
    # io/export
    "int8: numbers are rounded down":
        ("io/export/int8/int8_kernels.cc",
         "((value + ((int64_t)1 << (shift - 1))) >> shift) + zero;",
         "(value >> shift) + zero;",
         ("io_export", "Int8FileTest.Text_AnyMachine_HasTheSameBytes")),
    "int8: the state of a recurrence has seven levels":
        ("io/export/int8/int8_sequences.cc",
         "std::min<int64_t>(INT16_MAX, INT32_MAX / largest)",
         "std::min<int64_t>(3, INT32_MAX / largest)",
         ("io_export", "Int8FileTest.Recurrences_AnyCell_AreWithinAStep")),
    "int8: a softmax that another layer reads is left out":
        ("io/export/int8/int8_plain_graph.cc",
         " && Reads(index) == 1; ++k) {",
         "; ++k) {",
         ("io_export",
          "CArgumentsTest.OutputSoftmaxInUse_OfInt8_IsComputed")),
    "onnx: the odd pixel of same padding is before the image":
        ("io/export/lowering.cc",
         "    w.before[i] = pad / 2;\n    w.after[i] = pad - pad / 2;\n",
         "    w.before[i] = pad - pad / 2;\n    w.after[i] = pad / 2;\n",
         ("io_export",
          "OnnxFileTest.Pads_OfAnEvenKernel_AreMoreBehindThanBefore")),
    "c: the gradient of LoRA is divided by its scale":
        ("io/export/c/c_training_texts.cc",
         "dxa[l] = product(d, b + l * g[1], g[1], 1, 0) * scale;",
         "dxa[l] = product(d, b + l * g[1], g[1], 1, 0) / scale;",
         ("io_export", "CTrainingTest.Steps_DrawnModels_HaveTheTrainersBits")),
    # io/logs
    "event file: a full disk drops the events that wait":
        ("io/logs/event_file.cc",
         "  pending_.erase(0, done);",
         "  pending_.clear();",
         ("io_logs",
          "EventFileTest.Flush_DiskWasFull_CutsNoRecord")),
    "event file: the greatest value is behind the last bucket":
        ("io/logs/event_file.cc",
         "h->bucket[std::min(b, h->buckets - 1)] += 1;",
         "h->bucket[b] += 1;",
         ("io_logs",
          "EventFileTest.AddHistogram_ThirtyBuckets_CountsTheFiniteValues")),
    # io/watch
    "watch: a worse model replaces the last one":
        ("io/watch/watcher.cc",
         "scores.after <= scores.before;",
         "scores.after >= scores.before;",
         ("io_watch", "WatcherTest.IsNotWorse_Losses")),
    "watch: the round of a model that was written is trained again":
        ("io/watch/watcher.cc",
         "const bool is_installed = installed == state_.RoundId();",
         "const bool is_installed = false;",
         ("io_watch", "WatcherTest.Run_KilledAtEveryEffect_EndsWithTheSameModel")),
    "watch: a file is taken while it is written":
        ("io/watch/watched_files.cc",
         "if (!is_complete || is_damaged) return;",
         "if (is_damaged) return;",
         ("io_watch", "WatcherTest.Scan_NewFile_IsTakenInTheSecondScan")),
    "watch: a round whose files are damaged is tried again for ever":
        ("io/watch/watcher.cc",
         "if (may_be_damage && FindDamaged()) return Status();",
         "",
         ("io_watch",
          "WatcherDamageTest.OpenRound_AllFilesDamaged_IsAbandonedAndOthersTrain")),
    # io/checkpoint
    "directory: a save that failed is the latest":
        ("io/checkpoint/checkpoint_directory.cc",
         "  RINGLET_RETURN_IF_ERROR(saved);\n"
         "  latest_ = number;\n"
         "  Prune();\n",
         "  latest_ = number;\n"
         "  RINGLET_RETURN_IF_ERROR(saved);\n"
         "  Prune();\n",
         ("io_checkpoint",
          "*CheckpointCrashTest.Save_IoErrorAtAnyOperation_IsSurvived/*")),
    "model checkpoint: batches since the last one are not saved":
        ("io/checkpoint/model_checkpoint.cc",
         "    "
         'spans->push_back({"callback/model_checkpoint/batches_since",\n'
         "                      DType::kInt64,\n"
         "                      {},\n"
         "                      &batches_since_});\n",
         "",
         ("io_checkpoint",
          "ModelCheckpointTest.BestAndBatchCount_Resume_AreRestored")),
    "backup: the fit ends while one is being written":
        ("io/checkpoint/backup_and_restore.cc",
         "    if (saver_ != nullptr) saver_->Wait();\n"
         "    const bool removes",
         "    const bool removes",
         ("io_backup",
          "BackupTest.Backup_TrainingCompleted_IsRemovedUnlessKept")),
    # net/wire
    "withdrawal: the length of its identity is not checked":
        ("net/wire/handshake.cc",
         "bytes < kWithdrawFixedBytes || identity > bytes - "
         "kWithdrawFixedBytes ||",
         "bytes < kWithdrawFixedBytes ||",
         ("net_wire",
          "HandshakeTest.Decode_WithdrawIsDamaged_IsRejectedAndReadsNothingBeyond")),
    "heartbeat: the end of a chain may be one worker more":
        ("net/wire/heartbeat.cc",
         "worker >= size || !IsActivity",
         "worker > size || !IsActivity",
         ("net_membership",
          "HeartbeatTest.Decode_HeartbeatWithAChainEnd_GivesTheChainEnd")),
    "frame reader: halves land where their bytes would":
        ("net/wire/frame_reader.cc",
         "received_ / PackedBytesPerFloat(receive_target_.dtype) * "
         "sizeof(float);",
         "received_;",
         ("net_wire",
          "FrameReaderTest.Halves_CutAnywhere_LandAtTheirFloats")),
    # net/secure
    "noise: AES-GCM goes on with the old key":
        ("net/secure/noise.cc",
         "  if (aes_key_ != nullptr) UseAes();\n",
         "",
         ("net_secure", "NoiseTest.Rekey_OfAesGcm_SealsWithTheNewKey")),
    # net/cluster
    "slurm: one node more than the rest has a task more":
        ("net/cluster/slurm.cc",
         "node < world % nodes ? 1 : 0",
         "node <= world % nodes ? 1 : 0",
         ("net_cluster", "SlurmTest.Ranks_OfOneNode_TakePortsInTurn")),
    "torchrun: the workers' ports begin at the master's":
        ("net/cluster/cluster.cc",
         "variables.PortOr(port + 1, &port)",
         "variables.PortOr(port, &port)",
         ("net_cluster",
          "TorchrunTest.Ports_OneHost_FollowTheMasters")),
    # net/ring
    "failure detector: an own late tick counts as a standstill":
        ("net/membership/failure_detector.cc",
         "    progress_ = std::min(now, progress_ + late);\n",
         "",
         ("net_membership",
          "FailureDetectorTest.Progress_OneTickIsLate_IsAsRecentAsBefore")),
    "endpoints: the pause stays long after a connection":
        ("net/transport/endpoint_list.cc",
         "  Clear();\n"
         "  backoff_ = 0;\n",
         "  Clear();\n",
         ("net_membership",
          "EndpointListTest.Pause_AfterItWasReached_IsTheFirstAgain")),
    "collective: a block is sent before it has arrived":
        ("net/collective/collective_schedule.cc",
         "op.send_segment >= op.receive_segment",
         "op.send_segment > op.receive_segment",
         ("net_collective",
          "CollectiveScheduleTest.Operations_AnyTimingByRing_GiveTheSameResults")),
    "doubling: a world of 2, 4 or 8 has half of it left over":
        ("net/collective/collective_steps.cc",
         "while (core * 2 <= size)",
         "while (core * 2 < size)",
         ("net_collective",
          "CollectiveStepsTest.DoublingAllReduce_EightRanks_TakesThreeSteps")),
    "views: an acknowledgement of an older proposal counts":
        ("net/membership/view_agreement.cc",
         "if (state_ != State::kProposed || !ours || !view_.has(from)) break;",
         "if (state_ != State::kProposed || !view_.has(from)) break;",
         ("net_membership",
          "ViewAgreementTest.Ack_OfAnOlderProposal_DoesNotCount")),
    "failure detector: heartbeats are sixteen times too rare":
        ("net/membership/failure_detector.cc",
         "*beat = now - last_beat_ >= timeout / 4 - tick_nanos() / 2;",
         "*beat = now - last_beat_ >= timeout * 4 - tick_nanos() / 2;",
         ("net_simulator", "SimulatorTest.Jobs_EverySeed_HaveNoViolation")),
    "missing workers: the last of them is not named":
        ("net/membership/missing_peer_report.cc",
         "for (size_t r = 0; r < peers_.size(); ++r) {",
         "for (size_t r = 0; r + 1 < peers_.size(); ++r) {",
         ("net_process", "RingProcessTest.Start_WorkersAreMissing_NamesThem")),
    # net/doctor
    "doctor: silent connections stay open":
        ("net/doctor/exchange.cc",
         "const bool late = greets &&",
         "const bool late = greets && options_.sealed &&",
         ("net_doctor",
          "ExchangeTest.HostileConnections_AreBoundedAndHarmless")),
    "doctor: the settings of another doctor have no bound":
        ("net/doctor/exchange.cc",
         "report.settings.size() + header.payload_bytes > kSettingsBytes",
         "header.payload_bytes > kSettingsBytes",
         ("net_doctor", "ExchangeTest.HostileDoctor_EndsOnlyItsConnection")),
    "doctor: large frames that do not arrive are no fault":
        ("net/doctor/exchange.cc",
         "if (stalls) EndData(peer, /*stalled=*/true);",
         "if (stalls) EndData(peer, /*stalled=*/false);",
         ("net_doctor", "ExchangeTest.LargeFramesDoNotArrive_IsStalled")),
    "doctor: the greatest limit of memory counts":
        ("net/doctor/host_checks.cc",
         "return a.available < b.available;",
         "return a.available > b.available;",
         ("net_doctor", "HostChecksTest.CheckMemory_LeastLimit_ErrorNamesIt")),
    # net/relay
    "relay: the timer of silent connections fires once":
        ("net/transport/tcp_server.h",
         "        500, 500);",
         "        500, 0);",
         ("net_relay", "RelayTest.Strangers_SilentOrWrong_AreLetGo")),
    # net/launch
    "supervisor: the last failure is the job's exit code":
        ("net/launch/supervisor.cc",
         "  if (first) exit_code_ = code;",
         "  exit_code_ = code;",
         ("net_launch",
          "SupervisorTest.Failure_OthersRunOn_GoThroughEveryStage")),
    # net/strategy
    "strategy: patience is not passed on":
        ("net/strategy/strategy.cc",
         "  ring.patience_seconds = options.patience_seconds;\n",
         "",
         ("net_strategy", "StrategyTest.Patience_BelowZero_IsRefused")),
    "strategy: the wire dtype is not passed on":
        ("net/strategy/strategy.cc",
         "  ring.wire_dtype = options.communication.wire_dtype;\n",
         "",
         ("net_strategy",
          "StrategyTest.Options_OfTwoWorkersDiffer_ErrorNamesThem")),
    # tools/ringlet
    "train: in_memory of the RUN.json is ignored":
        ("tools/ringlet/config/open_data.cc",
         "  options.in_memory = data.in_memory;\n",
         "",
         ("program_footprint",
          "FootprintTest.Train_Alone_ThreadsAndDescriptorsEqualTheTable")),
    "predict: exit code 0 where the disk is full":
        ("tools/ringlet/commands/predict.cc",
         "        return file.file()->Write(row.data(), row.size());",
         "        file.file()->Write(row.data(), row.size()).IgnoreError();\n"
         "        return Status();",
         ("program", "ProgramTest.Predict_DiskIsFull_EarlierResultIsKept")),
    "predict: --offset is ignored":
        ("tools/ringlet/data/model_and_data_flags.cc",
         "scale.offset = static_cast<float>(offset_);",
         "scale.offset = 0;",
         ("program",
          "ProgramTest.Predict_ScaleAndOffset_EqualTraining")),
    "plan: --recompute is ignored":
        ("tools/ringlet/run/run.cc",
         "  options.recompute = config->fit.recompute;\n",
         "",
         ("program", "ProgramTest.Plan_Recompute_TakesLessMemory")),
    "plan: --limit leaves out copies of the state":
        ("tools/ringlet/commands/plan.cc",
         "others + plan->copies + plan->tables +",
         "others + plan->tables +",
         ("program",
          "ProgramTest.Plan_LimitOfAnElasticJob_CountsTheCopiesOfTheState")),
    "relay: --connections is ignored":
        ("tools/ringlet/commands/relay.cc",
         "  options.connections = static_cast<int>(connections);\n",
         "",
         ("program",
          "ProgramTest.Relay_MoreConnectionsThanFiles_IsRefused")),
    "train: insecure of the RUN.json is ignored":
        ("tools/ringlet/commands/train.cc",
         "options.insecure = options.insecure || flags.insecure;",
         "options.insecure = flags.insecure;",
         ("program",
          "ProgramTest.Train_Insecure_WaitsForWorkersOfOtherHosts")),
    "audit: exit code 0 where the proof fails":
        ("tools/ringlet/commands/audit.cc",
         "  if (!status.ok()) return InputExitCode(status);\n"
         "  Print",
         "  if (!status.ok()) proof = status.message();\n"
         "  Print",
         ("program",
          "ProgramTest.Audit_ExampleIsUsedTwice_EndsWithAnError")),
    "keygen: others may read the key's file":
        ("tools/ringlet/commands/keygen.cc",
         "O_CLOEXEC, 0600);",
         "O_CLOEXEC, 0644);",
         ("program",
          "ProgramTest.SealedModel_WithAndWithoutItsKey_IsUsedWithItAlone")),
    "diff: exit code 0 where files differ":
        ("tools/ringlet/commands/inspect.cc",
         "return comparison.same() ? 0 : 1;",
         "return InputExitCode(status);",
         ("program",
          "ProgramTest.Files_InspectedComparedAndExported_KeepTheirWeights")),
}
