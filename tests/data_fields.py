"""Fields of RUN.json's data that need another field beside them."""

# They need "sequence_length".
OF_WINDOWS = ("sequence_stride", "sampling_rate", "start_index", "end_index",
              "target_offset", "target_length", "target_columns", "group",
              "validation_groups")
# They need "directory" or "audio_directory", or "image" or "audio" in a CSV.
OF_PICTURES = ("image_size", "color_mode", "label_mode", "class_names",
               "interpolation", "crop_to_aspect_ratio", "subset",
               "validation_split", "seed", "damaged")
# They need "audio_directory" or "audio".
OF_SOUND_ALONE = ("background_noise", "background_frequency",
                  "background_volume", "time_shift_ms")
